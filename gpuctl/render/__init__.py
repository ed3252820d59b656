"""Model in, text out: the only code that writes to the standard streams."""
