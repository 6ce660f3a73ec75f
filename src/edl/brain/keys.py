"""The key of a Brain in a file: what its tokens are made with."""

import os
import secrets
from pathlib import Path

from .tokens import read_key


def key_at(path: Path, *, create: bool = False) -> bytes:
    """With `create`, made if it is not there; nobody else can read it. ValueError says what is wrong with it."""
    try:
        if create and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
        return read_key(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
