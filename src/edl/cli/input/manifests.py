"""Reads manifests from files, directories and stdin, with line numbers. What cannot be read is a document with a
problem.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

import msgspec

from edl.api.schema.problem import Path
from edl.cli.input.yaml_text import MAX_BYTES, Document, YamlProblem, documents

STDIN = "-"
_ENDINGS = (".yaml", ".yml", ".json")


class Manifest(msgspec.Struct, frozen=True):
    """One object. `at` is where it stands in its document: () or ("items", 3)."""

    file: str
    document: Document
    at: Path
    value: Any


def load(names: Iterable[str]) -> Iterator[Manifest]:
    """Every object in the files named, lists split into their items. A file without any gives one broken document."""
    for name in names:
        for file in _files(name):
            yield from _objects(file)


def _files(name: str) -> list[str]:
    if name == STDIN or not os.path.isdir(name):
        return [name]
    inside = sorted(str(path) for path in FilePath(name).iterdir() if path.suffix in _ENDINGS and path.is_file())
    return inside or [name]


def _objects(file: str) -> Iterator[Manifest]:
    found = False
    for document in _documents(file):
        if not document.empty:
            found = True
            yield from _split(file, document)
    if not found:
        yield Manifest(file, unreadable("is empty: no manifest in it"), (), None)


def _documents(file: str) -> Iterator[Document]:
    try:
        content = read(file)
    except OSError as error:
        return iter([unreadable(f"cannot be read: {error.strerror or error}")])
    if len(content) > MAX_BYTES:
        return iter([unreadable(f"is larger than {MAX_BYTES} bytes; split it")])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return iter([unreadable(f"is not UTF-8: byte 0x{content[error.start]:02x}; save it as UTF-8", line)])
    return documents(text)


def read(file: str) -> bytes:
    """At most one byte more than is allowed, so that nothing huge is held."""
    if file == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with open(file, "rb") as opened:
        return opened.read(MAX_BYTES + 1)


def unreadable(message: str, line: int = 1) -> Document:
    return Document(1, line, problems=[YamlProblem(line, (), message)], broken=True)


def _split(file: str, document: Document) -> Iterator[Manifest]:
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(kind, str) and kind.endswith("List") else None
    if isinstance(items, list):
        for index, item in enumerate(items):
            yield Manifest(file, document, ("items", index), item)
        if not items:
            yield Manifest(file, document, (), None)
    else:
        yield Manifest(file, document, (), value)
