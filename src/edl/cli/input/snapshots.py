"""Reads Kubernetes objects from files, directories and stdin, as `kubectl get ... -o json` or `-o yaml` prints them.

`manifests` reads what people write and counts lines; this reads what programs print, which may be large.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edl.cli.errors import CommandError

STDIN = "-"
_ENDINGS = (".yaml", ".yml", ".json")
_DEEPEST = 200
_REPEATED = 1_000_000  # nodes that aliases stand for


class _Loader(yaml.CSafeLoader):
    """Times stay text, as in JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own way of saying it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def load_values(names: Iterable[str]) -> list[Any]:
    """Every document of every file, as plain data; CommandError says which file cannot be read, and why."""
    return [value for name in names for file in _files(name) for value in _values(file)]


def _files(name: str) -> list[str]:
    if name == STDIN or not Path(name).is_dir():
        return [name]
    inside = sorted(str(path) for path in Path(name).iterdir() if path.suffix in _ENDINGS and path.is_file())
    if not inside:
        raise CommandError(f"{name}: no file in it ends in {', '.join(_ENDINGS)}")
    return inside


def _values(file: str) -> Iterator[Any]:
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror or error}") from error
    if content.lstrip()[:1] in (b"{", b"["):
        try:
            yield msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CommandError(f"{file}: is not JSON: {error or 'nested too deeply'}") from error
        return
    yield from _documents(file, content)


def _documents(file: str, content: bytes) -> Iterator[Any]:
    try:
        text = content.decode("utf-8-sig")
        _refuse_bombs(text)
        yield from yaml.load_all(text, Loader=_Loader)  # it is a SafeLoader
    except UnicodeDecodeError as error:
        raise CommandError(f"{file}: is not UTF-8") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        raise CommandError(f"{file}{line}: is not YAML: {getattr(error, 'problem', None) or error}") from error


def _refuse_bombs(text: str) -> None:
    """Refuses aliases that expand without end or contain themselves, and a hundred levels of nesting."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    read = repeated = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(f"{_line(event)} repeats *{event.anchor} within itself")
            repeated += sizes[event.anchor]
            if repeated > _REPEATED:
                raise ValueError(f"{_line(event)} repeats *{event.anchor} once too often; write it out")
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, read + repeated))
            if len(open_nodes) > _DEEPEST:
                raise ValueError(f"{_line(event)} is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = read + repeated - before + 1
        elif isinstance(event, yaml.ScalarEvent):
            read += 1
            if event.anchor:
                sizes[event.anchor] = 1


def _line(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark is not None else "it"
