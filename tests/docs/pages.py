"""The pages of the documentation, and their lines without code blocks."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(ROOT.glob("*.md")) if page.name != "README.md"),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "tests").rglob("*.md")),
]
FENCE = re.compile(r"^\s*```")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines outside of code blocks."""
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if FENCE.match(line):
            code = not code
        elif not code:
            yield number, line
