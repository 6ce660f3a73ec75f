"""The rules of structural schemas, where Python and JSON disagree."""

import pytest

from edl.embedded.server.crds.schema_validation import check


@pytest.mark.parametrize(
    ("value", "schema", "good"),
    [
        (1, {"not": {"enum": [True, False]}}, True),
        (0, {"not": {"enum": [True, False]}}, True),
        (True, {"not": {"enum": [True, False]}}, False),
        (1, {"enum": [1, 3]}, True),
        (True, {"enum": [1, 3]}, False),
        (1.0, {"enum": [1, 3]}, True),
        ("1", {"enum": ["1"]}, True),
    ],
)
def test_a_truth_is_no_number(value: object, schema: dict[str, object], good: bool) -> None:
    assert (not list(check(value, schema, "spec"))) is good
