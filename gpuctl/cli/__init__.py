"""One thin module per subcommand: parse, call, render, exit code."""
