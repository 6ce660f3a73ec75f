"""The error that ends a command. Below `main` and all commands, so that both can import it."""


class CommandError(Exception):
    """Ends a command with a message on stderr and exit code 1; no traceback, for it is no bug."""
