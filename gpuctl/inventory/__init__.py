"""Who runs where, and the snapshot that joins it to the readings."""
