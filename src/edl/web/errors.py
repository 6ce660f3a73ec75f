"""The refusal of a call: a status, a stable code, and words that say what to do."""


class RefusedError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def not_found(what: str) -> RefusedError:
    """The same for what is not there and for what the viewer may not know of."""
    return RefusedError(404, "not-found", f"there is no {what}, or you may not see it")


def forbidden(what: str) -> RefusedError:
    return RefusedError(403, "forbidden", what)
