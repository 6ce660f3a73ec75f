"""What `edl.torch` says to a script that cannot be elastic as it is."""


class NotElasticError(ValueError):
    """What was given cannot be made elastic; the message says what can."""
