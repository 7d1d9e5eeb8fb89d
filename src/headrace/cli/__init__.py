"""The command line: `headrace serve`, its flags, and the registry of commands."""
