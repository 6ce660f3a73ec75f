"""Checks that a tagged commit carries the version of its tag, so that a release is never built under another name.

python -m tests.tier_dist.version
"""

import subprocess
import sys
from pathlib import Path

from edl import __version__

REPOSITORY = Path(__file__).parents[2]


def problem(version: str, tags: list[str]) -> str | None:
    """A release is a tag `vX.Y.Z` on the commit whose `__version__` is X.Y.Z; untagged commits may be built freely."""
    releases = [tag for tag in tags if tag.startswith("v")]
    if releases and f"v{version}" not in releases:
        return f"this commit is tagged {', '.join(releases)}, but edl.__version__ is {version}: make them agree"
    return None


def main() -> int:
    found = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    complaint = problem(__version__, found.stdout.split())
    if complaint:
        print(complaint, file=sys.stderr)
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
