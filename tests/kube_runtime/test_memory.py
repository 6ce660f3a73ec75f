"""The process-wide settings: asked of glibc where it is, and of nobody elsewhere."""

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from edl.kube import memory


def test_freed_memory_is_kept_where_glibc_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *what: asked.append(what)))
    memory.keep_freed()
    assert asked == [(-3, 32 << 20), (-1, 8 << 20)], "M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h"


@pytest.mark.parametrize("library", [SimpleNamespace(), OSError("no such thing")])
def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    def load(name: None) -> Any:
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    memory.keep_freed()


def test_what_is_frozen_is_not_looked_through_again() -> None:
    try:
        memory.freeze()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
