"""Index ranges: `0-2,5`, as in a Job's status and in the record of a pod set."""

import pytest

from edl.api.kubernetes import indexes


@pytest.mark.parametrize(
    ("text", "found"),
    [("", set()), ("3", {3}), ("0-2", {0, 1, 2}), ("0,2-4,7", {0, 2, 3, 4, 7}), ("0-2,5", {0, 1, 2, 5}), ("7", {7})],
)
def test_indexes_as_text(text: str, found: set[int]) -> None:
    assert indexes.parse(text) == found
    assert indexes.text(found) == text


@pytest.mark.parametrize(("text", "found"), [("x,3-", {3}), ("x", set()), ("-4", set())])
def test_what_is_no_range_is_ignored(text: str, found: set[int]) -> None:
    assert indexes.parse(text) == found
    assert indexes.parse(indexes.text(found)) == found


def test_a_range_can_be_bounded() -> None:
    assert indexes.parse("5-1000000000", longest=2) == {5, 6, 7}
