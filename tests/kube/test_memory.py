"""The process-wide settings: asked of glibc where it is, and of nobody elsewhere."""

import ctypes
import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from edl.kube.cache import memory


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_freed_memory_is_kept_where_glibc_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *what: asked.append(what)))
    memory.tune()
    assert asked == [(-3, 32 << 20), (-1, 8 << 20)], "M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h"


@pytest.mark.parametrize("library", [SimpleNamespace(), OSError("no such thing")])
def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    def load(name: None) -> Any:
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    memory.tune()
    assert gc.get_threshold()[0] > 10_000, "garbage is looked for less often everywhere"


def test_what_is_frozen_is_not_looked_through_again() -> None:
    try:
        memory.freeze()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
