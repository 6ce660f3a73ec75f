"""YAML as JSON data with the line of every field, read from parser events: no recursion, no surprise.

Refused: what differs between parsers (`scalars`), duplicate keys, tags, explosions by alias, depth and size without
end. Where a document can still be read on, it is, so that all its problems come at once.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from edl.api.problem import Path
from edl.cli.scalars import Disputed, resolve

MAX_BYTES = 5_000_000
MAX_DOCUMENT = 1_000_000  # API servers take little more
MAX_DEPTH = 100
MAX_ALIASED = 10_000

_STR_TAGS = ("!", "tag:yaml.org,2002:str")
_MERGE = "<<"


class YamlProblem(msgspec.Struct, frozen=True):
    line: int
    at: Path
    message: str


class Document(msgspec.Struct):
    """`value` is None also where `problems` kept the document from being read at all (`broken`)."""

    number: int
    line: int
    value: Any = None
    lines: dict[Path, int] = {}
    problems: list[YamlProblem] = []
    broken: bool = False
    empty: bool = False

    def line_of(self, at: Path) -> int:
        """The line of the field, or of the nearest thing around it."""
        for length in range(len(at), -1, -1):
            if (line := self.lines.get(at[:length])) is not None:
                return line
        return self.line


class _BrokenError(Exception):
    def __init__(self, line: int, at: Path, message: str) -> None:
        super().__init__(message)
        self.problem = YamlProblem(line, at, message)


class _Frame(msgspec.Struct):
    """A list or an object that is being read. `key` is the name whose value comes next, None before a name."""

    at: Path
    value: dict[str, Any] | list[Any]
    anchor: str | None
    nodes_before: int
    key: str | None = None
    merging: bool = False
    key_lines: dict[str, int] = {}
    merged: set[str] = set()


def documents(text: str) -> Iterator[Document]:
    """Every document of the text. After one that is broken YAML nothing more can be read."""
    if oversized := _oversized(text):
        yield oversized
        return
    number = 0
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    builder: _Builder | None = None
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                builder = _Builder(Document(number, _start(event).line + 1))
            elif isinstance(event, yaml.DocumentEndEvent) and builder:
                yield builder.document
                builder = None
            elif builder:
                builder.take(event)
    except _BrokenError as error:
        assert builder is not None
        yield _broken(builder.document, error.problem)
    except yaml.YAMLError as error:
        document = builder.document if builder else Document(number + 1, 1)
        yield _broken(document, _syntax_problem(error, text))


def _oversized(text: str) -> Document | None:
    """A document that is too large to be read at all, found before anything is parsed."""
    if len(text) <= MAX_DOCUMENT:
        return None
    starts = [0, *(match.start() for match in re.finditer(r"^---", text, re.MULTILINE)), len(text)]
    for number, (start, end) in enumerate(itertools.pairwise(starts), 1):
        if end - start > MAX_DOCUMENT:
            document = Document(number, text.count("\n", 0, start) + 1)
            return _broken(document, YamlProblem(document.line, (), f"is larger than {MAX_DOCUMENT} characters"))
    return None


def _broken(document: Document, problem: YamlProblem) -> Document:
    document.value, document.broken = None, True
    document.problems.append(problem)
    return document


def _syntax_problem(error: yaml.YAMLError, text: str) -> YamlProblem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return YamlProblem(line, (), f"is not YAML: {error.reason} (character {error.character!r})")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return YamlProblem(1, (), f"is not YAML: {error}")
    mark, words = error.problem_mark, " ".join(filter(None, (error.problem, error.context)))
    if error.context_mark is not None and "quoted scalar" in words:
        # The end of the file is where the parser gave up, the quote that nobody closes is what the user looks for.
        mark, words = error.context_mark, "a quote opens here and is never closed; is it one too many?"
    return YamlProblem(mark.line + 1, (), f"is not YAML at column {mark.column + 1}: {words}")


def _start(event: yaml.Event) -> yaml.Mark:
    assert event.start_mark is not None, "a parser marks what it reads"
    return event.start_mark  # type: ignore[return-value]  # the C parser's Mark has the same fields


class _Builder:
    """Builds one document from its events."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self._aliased = 0

    def take(self, event: yaml.Event) -> None:
        line = _start(event).line + 1
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open({}, event, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open([], event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", line)
        else:
            self._close()

    def _complain(self, line: int, at: Path, message: str) -> None:
        self.document.problems.append(YamlProblem(line, at, message))

    def _next(self) -> Path:
        """Where the coming value belongs."""
        if not self._frames:
            return ()
        frame = self._frames[-1]
        return (*frame.at, len(frame.value) if isinstance(frame.value, list) else frame.key or "")

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None and not frame.merging:
            self._name(frame, event, line)
            return
        at = self._next()
        value = self._meaning(event, line, at)
        if not self._frames and value is None and not event.value and event.implicit[0]:
            self.document.empty = True
        self._put(value, at, line, event.anchor, 1)

    def _name(self, frame: _Frame, event: yaml.ScalarEvent, line: int) -> None:
        name: str = event.value
        plain = event.implicit[0] and event.tag is None
        if plain and name == _MERGE:
            frame.merging = True
            return
        meaning = resolve(name) if plain else name
        if isinstance(meaning, Disputed):
            self._complain(line, (*frame.at, name), meaning.message)
        elif meaning is None:
            raise _BrokenError(line, frame.at, f"a name is wanted, found {name or 'nothing'}")
        if name in frame.key_lines:
            self._complain(line, (*frame.at, name), f"is given twice, first in line {frame.key_lines[name]}")
        frame.key = name
        frame.key_lines[name] = line

    def _meaning(self, event: yaml.ScalarEvent, line: int, at: Path) -> Any:
        if event.tag in _STR_TAGS or not (event.implicit[0] or event.tag):
            return event.value
        value = resolve(event.value)
        if isinstance(value, Disputed):
            self._complain(line, at, value.message)
            return event.value
        if event.tag is not None and event.tag != f"tag:yaml.org,2002:{_TAGS.get(type(value))}":
            raise _BrokenError(line, at, f"has the tag {event.tag[:60]}; write the value plainly")
        return value

    def _open(self, value: dict[str, Any] | list[Any], event: yaml.CollectionStartEvent, line: int) -> None:
        frame = self._frames[-1] if self._frames else None
        at = self._next()
        if frame and isinstance(frame.value, dict) and frame.key is None and not frame.merging:
            raise _BrokenError(line, frame.at, "a name is wanted, found a list or an object")
        if len(self._frames) >= MAX_DEPTH:
            raise _BrokenError(line, (), f"is nested deeper than {MAX_DEPTH} levels")
        if event.tag is not None and event.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise _BrokenError(line, at, f"has the tag {event.tag[:60]}; write the value plainly")
        self.document.lines.setdefault(at, self._line(frame, line))
        self._frames.append(_Frame(at, value, event.anchor, self._nodes))

    def _line(self, frame: _Frame | None, line: int) -> int:
        """A field is where its name is, even if its value begins below."""
        return frame.key_lines.get(frame.key, line) if frame and frame.key is not None else line

    def _close(self) -> None:
        frame = self._frames.pop()
        nodes = self._nodes - frame.nodes_before + 1
        self._nodes = frame.nodes_before
        self._put(frame.value, frame.at, self.document.lines[frame.at], frame.anchor, nodes)

    def _alias(self, anchor: str, line: int) -> None:
        at = self._next()
        if anchor not in self._anchors:
            raise _BrokenError(line, at, f"*{anchor[:60]} refers to nothing that is complete here")
        value, nodes = self._anchors[anchor]
        self._aliased += nodes
        if self._aliased > MAX_ALIASED:
            raise _BrokenError(line, at, f"aliases repeat more than {MAX_ALIASED} values; write them out")
        self._put(value, at, line, None, nodes)

    def _put(self, value: Any, at: Path, line: int, anchor: str | None, nodes: int) -> None:
        self._nodes += nodes
        if anchor is not None:
            self._anchors[anchor] = (value, nodes)
        if not self._frames:
            self.document.value = value
            self.document.lines.setdefault((), line)
            return
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            self.document.lines.setdefault(at, line)
            frame.value.append(value)
        elif frame.merging:
            self._merge(frame, value, line)
        elif frame.key is not None:
            self.document.lines.setdefault(at, self._line(frame, line))
            if frame.key in frame.merged:
                frame.merged.discard(frame.key)
                frame.value[frame.key] = value
            frame.value.setdefault(frame.key, value)
            frame.key = None

    def _merge(self, frame: _Frame, value: Any, line: int) -> None:
        """`<<: *base`: what is named here itself, before or after, stays."""
        frame.merging = False
        assert isinstance(frame.value, dict)
        for base in value if isinstance(value, list) else [value]:
            if not isinstance(base, dict):
                raise _BrokenError(line, frame.at, "<< wants an object, or a list of objects, to take fields from")
            for name, item in base.items():
                if name not in frame.value:
                    frame.value[name] = item
                    frame.merged.add(name)


_TAGS = {type(None): "null", bool: "bool", int: "int", float: "float"}
