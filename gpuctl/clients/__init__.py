"""The only code that opens a socket; library errors are translated here."""
