"""YAML with positions: lines, aliases, merges, duplicates, and the inputs that are built to hurt."""

import json
import time
import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.cli.input.yaml_text import Document, documents


def only(text: str) -> Document:
    [document] = documents(text)
    return document


def complaints(text: str) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for document in documents(text) for problem in document.problems]


def test_values_and_lines() -> None:
    document = only("a:\n  b: 1\n  c:\n  - x\n  - d: 'y'\n\n  e: {f: g}\n")
    assert document.value == {"a": {"b": 1, "c": ["x", {"d": "y"}], "e": {"f": "g"}}}
    lines = {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1, "d"): 5, ("a", "e", "f"): 7}
    assert {at: document.line_of(at) for at in lines} == lines
    assert document.line_of(("a", "c", 1, "absent", "deeper")) == 5
    assert document.line_of(("absent",)) == 1


def test_documents_are_counted_from_one_and_empty_ones_are_marked() -> None:
    found = list(documents("---\na: 1\n---\n---\nb: 2\n...\n"))
    assert [(document.number, document.line, document.empty) for document in found] == [
        (1, 1, False),
        (2, 3, True),
        (3, 4, False),
    ]
    assert list(documents("")) == []
    assert not only("null").empty


NOT_YAML = "is not YAML at column"
NEXT = "while scanning for the next token"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("a: 1\nb: 2\na: 3\n", [(3, "is given twice, first in line 1")]),
        ("a: on\n", [(1, 'on is true to some YAML parsers and text to others: write true, or "on"')]),
        ("on: 1\n", [(1, 'on is true to some YAML parsers and text to others: write true, or "on"')]),
        ("a: !!python/name:x y\n", [(1, "has the tag tag:yaml.org,2002:python/name:x; write the value plainly")]),
        ("a: !mine {b: 1}\n", [(1, "has the tag !mine; write the value plainly")]),
        ("a: !!int x\n", [(1, "has the tag tag:yaml.org,2002:int; write the value plainly")]),
        ("a: *b\n", [(1, "*b refers to nothing that is complete here")]),
        ("a: &a [*a]\n", [(1, "*a refers to nothing that is complete here")]),
        ("<<: 5\n", [(1, "<< wants an object, or a list of objects, to take fields from")]),
        ("{a: 1}: 2\n", [(1, "a name is wanted, found a list or an object")]),
        ("~: 2\n", [(1, "a name is wanted, found ~")]),
        ("a: [1\nb: 2\n", [(2, f"{NOT_YAML} 2: did not find expected ',' or ']' while parsing a flow sequence")]),
        ("a: 'x\nb: 2\n", [(1, f"{NOT_YAML} 4: a quote opens here and is never closed; is it one too many?")]),
        ("a:\n\tb: 1\n", [(2, f"{NOT_YAML} 1: found character that cannot start any token {NEXT}")]),
        ("a: \x07\n", [(1, "is not YAML: control characters are not allowed (character 7)")]),
    ],
)  # fmt: skip
def test_refused(text: str, problems: list[tuple[int, str]]) -> None:
    assert complaints(text) == problems


def test_the_first_of_two_is_kept_and_reading_goes_on() -> None:
    document = only("a: 1\na: {b: 2}\nc: yes\nd: 4\n")
    assert document.value == {"a": 1, "c": "yes", "d": 4}
    assert len(document.problems) == 2


def test_endless_complaints_end() -> None:
    assert len(only("".join(f"k{number}: on\n" for number in range(1000))).problems) == 100


def test_json_with_characters_as_two_escapes() -> None:
    assert only('{"a": "\\ud83d\\ude00 \\\\ud83d\\\\ude00"}').value == {"a": "\U0001f600 \\ud83d\\ude00"}


def test_tags_that_only_say_what_is_there_are_fine() -> None:
    assert only("a: !!str 5\nb: !!int 5\nc: ! 7\nd: !!map {}\ne: !!seq []\nf: !!null ~\n").value == {
        "a": "5",
        "b": 5,
        "c": "7",
        "d": {},
        "e": [],
        "f": None,
    }


def test_aliases_and_merges() -> None:
    text = "base: &base {a: 1, b: 2}\nmore: &more {c: 3}\nx: *base\n"
    document = only(text + "y:\n  b: 5\n  <<: [*base, *more]\n  a: 7\nz: {<<: *more}\n")
    assert document.problems == []
    assert document.value == {
        "base": {"a": 1, "b": 2},
        "more": {"c": 3},
        "x": {"a": 1, "b": 2},
        "y": {"b": 5, "a": 7, "c": 3},
        "z": {"c": 3},
    }
    assert document.line_of(("x", "a")) == 3


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "aliases repeat more than 10000 values"),
        ("a: &a {b: 1}\n" + "".join(f"k{n}: *a\n" for n in range(50_000)), "aliases repeat more than 10000 values"),
        ("[" * 10_000 + "]" * 10_000, "is nested deeper than 100 levels"),
        ("{a: " * 10_000 + "}" * 10_000, "is nested deeper than 100 levels"),
        ("".join(" " * n + f"k{n}:\n" for n in range(1000)), "is nested deeper than 100 levels"),
        ("- " * 10_000 + "x", "is nested deeper than 100 levels"),
        ("a: |\n" + "  x\n" * 600_000 + "b: 1\n", "is larger than 1000000 characters"),
        ("".join(f"k{n}: value\n" for n in range(200_000)), "is larger than 1000000 characters"),
        ("? " * 5000 + "a", "a name is wanted"),
        ("\ufeff\u0000", "is not YAML"),
    ],
    ids=["laughs", "aliases", "lists", "objects", "blocks", "dashes", "large text", "many fields", "keys", "control"],
)
def test_input_that_is_built_to_hurt_is_refused_cheaply(text: str, message: str) -> None:
    started = time.process_time()
    tracemalloc.start()
    try:
        found = complaints(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert message in found[-1][1]
    assert peak < 200_000_000
    assert (
        time.process_time() - started < 10
    )  # well below a second without the tracing of memory and on an idle machine


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc-_./", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(JSON)
def test_what_was_dumped_is_read_back(value: Any) -> None:
    assert only(yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True)).value == value
    assert only(json.dumps([value])).value == [value]


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.text("ab:-[]{}&*!|>'\"%@`#, \n\t~?0.", max_size=30))
def test_no_text_makes_it_raise(text: str) -> None:
    for document in documents(text):
        assert document.broken or not document.problems or all(problem.line >= 1 for problem in document.problems)
