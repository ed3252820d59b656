"""Side effects: evictions, and the executor with its journal, lock, holds and recovery."""
