"""A simulated cluster: `--demo`, and the world behind the fakes in tests."""
