"""Supported versions of Kubernetes: comparing them, and the files in which they have to be written out."""

import re
from pathlib import Path

import pytest

from edl.api.kubernetes.version import NEWEST, is_too_old, newest_minor, oldest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.31.9", True), ("1.9", True), ("v1.32.0", False), ("v1.36.3+edl", False), ("v2.0", False), ("odd", False)],
)
def test_versions_before_the_oldest_are_too_old(version: str, expected: bool) -> None:
    assert is_too_old(version) is expected


@pytest.mark.parametrize(
    ("pattern", "expected", "files"),
    [
        (r"Kubernetes (?:>= )?(\d+\.\d+)(?= or newer|;)", oldest(), ["README.md", "docs/*.md", "docs/*/*.md"]),
        (r"Kubernetes (\d+\.\d+)", newest_minor(), ["docs/concepts/embedded-api-server.md"]),
        (r"Kubernetes \| (\d+\.\d+) and newer", oldest(), ["docs/operate/support.md"]),
        (r"builds and runs (\d+\.\d+)", newest_minor(), ["docs/operate/support.md"]),
        (r"kube-apiserver (\d[\d.]*\d)", NEWEST.removeprefix("v"), ["docs/concepts/embedded-api-server.md"]),
        (r"real Kubernetes \((v[\d.]+)\)", NEWEST, ["tests/tier_kube/README.md"]),
        (r"k8s\.io/kubernetes (v\S+)", NEWEST, ["tests/tier_kube/cluster/go/cluster/go.mod"]),
    ],
)
def test_every_version_that_is_written_out_is_the_supported_one(pattern: str, expected: str, files: list[str]) -> None:
    texts = [path.read_text() for each in files for path in ROOT.glob(each)]
    found = [version for text in texts for version in re.findall(pattern.replace(" ", r"\s+"), text)]
    assert set(found) == {expected}
