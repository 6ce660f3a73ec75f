"""Parses YAML into JSON data with the line of every field, from parser events and without recursion.

Refused: scalars that parsers disagree on (`yaml_scalars`), duplicate keys, tags, alias bombs, excessive depth and size.
Reading goes on after a problem where possible, so that all problems of a document are reported at once.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from edl.api.schema.problem import MAX_PROBLEMS, Path
from edl.cli.input.yaml_scalars import Disputed, resolve

MAX_BYTES = 5_000_000
MAX_DOCUMENT = 1_000_000  # API servers take little more
MAX_DEPTH = 100
MAX_ALIASED = 10_000

_STR_TAGS = ("!", "tag:yaml.org,2002:str")
_MERGE = "<<"
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")


class YamlProblem(msgspec.Struct, frozen=True):
    line: int
    at: Path
    message: str


# Of a list or object: its line, and the lines of what is in it by name or index; of anything else its line alone.
Lines = tuple[int, dict[str | int, "Lines | int"]]


class Document(msgspec.Struct):
    """`value` is None also where `problems` kept the document from being read at all (`broken`)."""

    number: int
    line: int
    value: Any = None
    lines: Lines | int | None = None
    problems: list[YamlProblem] = []
    broken: bool = False
    empty: bool = False

    def line_of(self, at: Path) -> int:
        """The line of the field, or of the nearest thing around it."""
        lines = self.lines
        for step in at:
            if not isinstance(lines, tuple) or step not in lines[1]:
                break
            lines = lines[1][step]
        return self.line if lines is None else lines[0] if isinstance(lines, tuple) else lines


class _BrokenError(Exception):
    def __init__(self, line: int, at: Path, message: str) -> None:
        super().__init__(message)
        self.problem = YamlProblem(line, at, message)


class _Frame:
    """A list or an object that is being read. `key` is the name whose value comes next, None before a name."""

    __slots__ = ("anchor", "is_list", "key", "key_line", "line", "lines", "merged", "merging", "nodes_before", "value")

    def __init__(self, value: Any, line: int, anchor: str | None, nodes_before: int) -> None:
        self.value = value
        self.is_list = isinstance(value, list)
        self.line = line
        self.lines: dict[str | int, Lines | int] = {}
        self.anchor = anchor
        self.nodes_before = nodes_before
        self.key: str | None = None
        self.key_line = line
        self.merging = False
        self.merged: frozenset[str] = frozenset()

    @property
    def awaits_name(self) -> bool:
        return not self.is_list and self.key is None and not self.merging

    @property
    def step(self) -> str | int:
        return len(self.value) if self.is_list else self.key or ""


def documents(text: str) -> Iterator[Document]:
    """Every document of the text. After one that is broken YAML nothing more can be read."""
    if oversized := _oversized(text):
        yield oversized
        return
    number = 0
    events = yaml.parse(_without_surrogates(text), Loader=yaml.CSafeLoader)
    builder: _Builder | None = None
    try:
        for event in events:
            kind = type(event)
            if kind is yaml.DocumentStartEvent:
                number += 1
                builder = _Builder(Document(number, _line(event)))
            elif builder is not None and kind is not yaml.DocumentEndEvent:
                builder.take(event, _line(event))
            elif builder is not None:
                yield builder.document
                builder = None
    except _BrokenError as error:
        assert builder is not None
        yield _broken(builder.document, error.problem)
    except yaml.YAMLError as error:
        document = builder.document if builder else Document(number + 1, 1)
        yield _broken(document, _syntax_problem(error, text))


def _without_surrogates(text: str) -> str:
    """JSON may write a character as two escapes, which YAML does not know."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    return _SURROGATES.sub(lambda pair: pair[1] + json.loads(f'"{pair[2]}"'), text)


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


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1  # type: ignore[union-attr]  # a parser marks all that it reads


class _Builder:
    """Builds one document from its events."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self._aliased = 0

    def take(self, event: Any, line: int) -> None:
        _TAKE[type(event)](self, event, line)

    def _complain(self, line: int, at: Path, message: str) -> None:
        if len(self.document.problems) < MAX_PROBLEMS:
            self.document.problems.append(YamlProblem(line, at, message))

    def _here(self) -> Path:
        """Where the coming value belongs."""
        return tuple(frame.step for frame in self._frames)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.awaits_name:
            self._name(frame, event, line)
            return
        value = self._meaning(event, line)
        if frame is None and value is None and not event.value and event.implicit[0]:
            self.document.empty = True
        self._put(value, line, line, event.anchor, 1)

    def _name(self, frame: _Frame, event: yaml.ScalarEvent, line: int) -> None:
        name: str = event.value
        plain = event.implicit[0] and event.tag is None
        if plain and name == _MERGE:
            frame.merging = True
            return
        meaning = resolve(name) if plain else name
        if meaning is None:
            raise _BrokenError(line, self._here(), f"a name is wanted, found {name or 'nothing'}")
        frame.key, frame.key_line = name, line
        if isinstance(meaning, Disputed):
            self._complain(line, self._here(), meaning.message)
        if name in frame.value and name not in frame.merged:
            lines = frame.lines[name]
            first = lines[0] if isinstance(lines, tuple) else lines
            self._complain(line, self._here(), f"is given twice, first in line {first}")

    def _meaning(self, event: yaml.ScalarEvent, line: int) -> Any:
        if event.tag in _STR_TAGS or not (event.implicit[0] or event.tag):
            return event.value
        value = resolve(event.value)
        if isinstance(value, Disputed):
            self._complain(line, self._here(), value.message)
            return event.value
        if event.tag is not None and event.tag != f"tag:yaml.org,2002:{_TAGS.get(type(value))}":
            raise _BrokenError(line, self._here(), f"has the tag {event.tag[:60]}; write the value plainly")
        return value

    def _open_object(self, event: yaml.MappingStartEvent, line: int) -> None:
        self._open({}, event, line)

    def _open_list(self, event: yaml.SequenceStartEvent, line: int) -> None:
        self._open([], event, line)

    def _open(self, value: Any, event: yaml.CollectionStartEvent, line: int) -> None:
        if self._frames and self._frames[-1].awaits_name:
            raise _BrokenError(line, self._here(), "a name is wanted, found a list or an object")
        if len(self._frames) >= MAX_DEPTH:
            raise _BrokenError(line, (), f"is nested deeper than {MAX_DEPTH} levels")
        if event.tag is not None and event.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise _BrokenError(line, self._here(), f"has the tag {event.tag[:60]}; write the value plainly")
        self._frames.append(_Frame(value, line, event.anchor, self._nodes))

    def _close(self, event: yaml.Event, line: int) -> None:
        frame = self._frames.pop()
        nodes = self._nodes - frame.nodes_before + 1
        self._nodes = frame.nodes_before
        self._put(frame.value, frame.line, (frame.line, frame.lines), frame.anchor, nodes)

    def _alias(self, event: yaml.AliasEvent, line: int) -> None:
        anchor = event.anchor or ""
        if self._frames and self._frames[-1].awaits_name:
            raise _BrokenError(line, self._here(), "a name is wanted, found an alias")
        if anchor not in self._anchors:
            raise _BrokenError(line, self._here(), f"*{anchor[:60]} refers to nothing that is complete here")
        value, nodes = self._anchors[anchor]
        self._aliased += nodes
        if self._aliased > MAX_ALIASED:
            raise _BrokenError(line, self._here(), f"aliases repeat more than {MAX_ALIASED} values; write them out")
        self._put(value, line, line, None, nodes)

    def _put(self, value: Any, line: int, lines: Lines | int, anchor: str | None, nodes: int) -> None:
        self._nodes += nodes
        if anchor is not None:
            self._anchors[anchor] = (value, nodes)
        frame = self._frames[-1] if self._frames else None
        if frame is None:
            self.document.value, self.document.lines = value, lines
        elif frame.is_list:
            frame.lines[len(frame.value)] = lines
            frame.value.append(value)
        elif frame.merging:
            self._merge(frame, value, line)
        elif frame.key is not None:
            self._put_field(frame, frame.key, value, lines)

    def _put_field(self, frame: _Frame, name: str, value: Any, lines: Lines | int) -> None:
        frame.key = None
        if name in frame.value and name not in frame.merged:
            return  # given twice, which has been said
        frame.merged -= {name}
        frame.value[name] = value
        # A field is where its name is, even if its value begins below.
        frame.lines[name] = (frame.key_line, lines[1]) if isinstance(lines, tuple) else frame.key_line

    def _merge(self, frame: _Frame, value: Any, line: int) -> None:
        """`<<: *base`: what is named here itself, before or after, stays."""
        frame.merging = False
        for base in value if isinstance(value, list) else [value]:
            if not isinstance(base, dict):
                raise _BrokenError(line, self._here(), "<< wants an object, or a list of objects, to take fields from")
            taken = {name: item for name, item in base.items() if name not in frame.value}
            frame.value.update(taken)
            frame.lines.update(dict.fromkeys(taken, line))
            frame.merged |= taken.keys()


_TAKE: dict[type, Callable[[_Builder, Any, int], None]] = {
    yaml.ScalarEvent: _Builder._scalar,
    yaml.MappingStartEvent: _Builder._open_object,
    yaml.MappingEndEvent: _Builder._close,
    yaml.SequenceStartEvent: _Builder._open_list,
    yaml.SequenceEndEvent: _Builder._close,
    yaml.AliasEvent: _Builder._alias,
}
_TAGS = {type(None): "null", bool: "bool", int: "int", float: "float"}
