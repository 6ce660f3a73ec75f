"""The image is built from files with known hashes, of the versions that were tested, and of nothing else."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.case("attack-13")

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"([A-Za-z0-9_.-]+)==(\S+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\\\)?)*)", re.MULTILINE)


def pins(name: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each distribution."""
    found = PIN.findall((ROOT / name).read_text())
    return {canonicalize_name(one): (version, hashes.count("sha256:")) for one, version, hashes in found}


def closure(*roots: str) -> set[str]:
    """What these need on this machine, as it is installed here."""
    waiting, seen = [Requirement(root) for root in roots], set[str]()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for text in _requires(wanted.name):
            requirement = Requirement(text)
            extras = wanted.extras or {""}
            applies = requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in extras)
            if applies and canonicalize_name(requirement.name) not in seen:
                waiting.append(requirement)
        seen.add(name)
    return seen


def _requires(name: str) -> list[str]:
    """An extra that is not installed here needs nothing that we could know."""
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


@pytest.mark.parametrize("name", ["constraints-image.txt", "constraints-build.txt"])
def test_every_file_has_a_hash_and_every_version_is_the_tested_one(name: str) -> None:
    tested = pins("constraints.txt")
    assert pins(name)
    for one, (version, hashes) in pins(name).items():
        assert hashes > 0, one
        assert tested[one][0] == version, f"{one}: `make pins` was not run after a change of constraints.txt"


def test_all_that_edl_needs_is_pinned() -> None:
    assert closure("edl-train[postgres]") - {"edl-train"} <= set(pins("constraints-image.txt"))
    assert closure("hatchling") <= set(pins("constraints-build.txt"))


def test_pip_is_told_to_ask_for_hashes() -> None:
    """Nothing is installed from an index in any other way."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    installs = re.findall(r"\S*pip install [^&\n]*", text)
    assert len(installs) == 3
    assert all("--require-hashes" in one or "--no-index" in one for one in installs)
    assert "--no-build-isolation" in text
