"""The certificate authority of an embedded cluster on disk: `ca.crt` and `ca.key` in one directory, mode 0600.

It issues certificates for servers (the API server, process nodes) and for clients (the API server when it calls a
node).
"""

import os
import tempfile
from pathlib import Path

from edl.certificates import Authority, Pair


def authority_at(directory: Path) -> Authority:
    """The authority kept in `directory`, made on first use."""
    certificate, key = directory / "ca.crt", directory / "ca.key"
    if certificate.exists() and key.exists():
        return Authority(Pair(certificate.read_bytes(), key.read_bytes()))
    authority = Authority.create("edl embedded cluster")
    write_private(key, authority.pair.key)
    write_private(certificate, authority.pair.certificate)
    return authority


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)
