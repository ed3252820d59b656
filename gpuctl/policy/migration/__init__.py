"""Whether a VM can be moved, what it will cost, and how far a migration has come."""
