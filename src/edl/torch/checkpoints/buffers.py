"""Memory that other processes can hold as well: files without names, filled again and again."""

import contextlib
import mmap
import os
from collections.abc import Iterator


class Buffer:
    """`file` may be handed to another process; it is None where the system has no such files, and all else works."""

    def __init__(self, size: int) -> None:
        self.size, self.file = size, _file(size)
        self.memory = mmap.mmap(-1 if self.file is None else self.file, size)
        self.pins = 0
        """Who reads from it; it is not filled meanwhile."""

    def close(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None
        with contextlib.suppress(BufferError):  # somebody still reads from it: it goes with the last one
            self.memory.close()


def _file(size: int) -> int | None:
    try:
        file = os.memfd_create("edl-checkpoint", os.MFD_CLOEXEC)
    except (OSError, AttributeError):
        return None
    try:
        os.ftruncate(file, size)
    except OSError:
        os.close(file)
        return None
    return file


@contextlib.contextmanager
def opened(file: int) -> Iterator[mmap.mmap]:
    """What another process filled, as private memory: nothing that is done to it goes back."""
    memory = mmap.mmap(file, os.fstat(file).st_size, access=mmap.ACCESS_COPY)
    os.close(file)
    try:
        yield memory
    finally:
        with contextlib.suppress(BufferError):
            memory.close()
