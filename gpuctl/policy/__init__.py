"""Pure decisions over a snapshot: no I/O, no clock, no randomness."""
