"""Completion scripts for the shells, generated from what the commands declare."""
