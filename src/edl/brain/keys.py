"""Reads and creates the key file with which the Brain signs tokens."""

import os
import secrets
from pathlib import Path

from edl.brain.tokens import read_key


def key_at(path: Path, *, create: bool = False) -> bytes:
    """`create` makes a missing file, readable only by its owner. ValueError says what is wrong with the file."""
    try:
        if create and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
        return read_key(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
