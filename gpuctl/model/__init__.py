"""Values that every layer shares: frozen, typed, units in the names."""
