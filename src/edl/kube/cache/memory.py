"""Process-wide memory settings for a large cache: malloc and garbage collection. For a process's owner to call."""

import ctypes
import gc
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_KEPT = 8 << 20
_YOUNG = 50_000


def tune() -> None:
    """Before the first sync. A page of a list is megabytes that are freed at once: where glibc gives them back to the
    kernel, the next page costs hundreds of page faults. So a few megabytes are kept for it. And decoded objects have
    no cycles: to look for them at every 700 of these, Python's habit, takes a tenth of the time of a list."""
    gc.set_threshold(_YOUNG)
    with suppress(OSError, AttributeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 4 * _KEPT)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def freeze() -> None:
    """What is there now outlives every garbage collection: looking through it again and again only costs."""
    gc.collect()
    gc.freeze()
