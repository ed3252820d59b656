"""Servers that stand in for the outside world, over real sockets on loopback."""
