"""Every fault that was found once has a test that names it, and every name is known (`tests/cases.py`)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import ACCEPTANCE, ATTACKS, DECISIONS

TESTS = Path(__file__).parent
MARK = "mark.case("


def named(path: Path) -> Iterator[str]:
    """The cases that the marks of a file name: read, not imported, so that every tier counts."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if MARK in text else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.case":
            [argument] = node.args
            yield ast.literal_eval(argument)


def cases() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in named(path):
            found.setdefault(name, []).append(str(path.relative_to(TESTS)))
    return found


FOUND = cases()


@pytest.mark.parametrize("name", [*ACCEPTANCE, *ATTACKS])
def test_a_case_has_its_test(name: str) -> None:
    assert FOUND.get(name), f"no test has the mark case({name!r})"


def test_a_test_names_a_case_that_is_listed() -> None:
    assert {name: FOUND[name] for name in FOUND.keys() - {*ACCEPTANCE, *ATTACKS}} == {}


def test_a_case_is_listed_once() -> None:
    names = [*ACCEPTANCE, *ATTACKS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", DECISIONS)
def test_what_settles_a_case_is_there(name: str) -> None:
    assert name in ACCEPTANCE
    assert f"### {DECISIONS[name]}\n" in (TESTS.parent / "docs" / "decisions.md").read_text()
