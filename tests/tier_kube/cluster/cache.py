"""The cache of built tools between runs: outside the checkout, because a CI run gets a new checkout each time."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """`$EDL_CACHE`, else `edl` below the user's cache directory."""
    if chosen := os.environ.get("EDL_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "edl"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` as a lock file; the kernel releases it however this process ends, so no lock is ever stale."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run that holds {path}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fingerprint(*parts: str | Path) -> str:
    """A short name for exactly this content: the text of strings, the bytes of files and of all below directories.

    Bytecode is left out: it appears beside sources without changing them.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode() + b"\0")
            continue
        for file in [part] if part.is_file() else _files_below(part):
            digest.update(str(file.relative_to(part.parent)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _files_below(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
