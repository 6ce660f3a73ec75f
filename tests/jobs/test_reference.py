"""The reference is what the declarations say, and says something about every field."""

from pathlib import Path

from edl.jobs.reference import reference
from edl.jobs.registry import KINDS

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "kinds.md"


def test_the_reference_in_the_docs_is_up_to_date() -> None:
    assert DOCS.read_text() == reference(), "run: edl crds -o markdown > docs/reference/kinds.md"


def test_every_kind_and_no_empty_cell() -> None:
    text = reference()
    assert all(api_version in text for kind in KINDS for api_version in kind.api_versions)
    assert "|  |" not in text
    assert "| `spec.trainer.min-instance`* | whole number, 1 or more | The fewest trainers" in text
