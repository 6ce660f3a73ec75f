"""The commands, grouped by subject. Adding one is adding a file: see `edl.cli.registry`."""
