"""The tier stands on real frameworks, and EDL's dependencies hold beside them in one environment."""

import importlib.metadata

import pytest

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("package", ["torch", "paddlepaddle", "transformers"])
def test_the_tested_release_is_installed(package: str) -> None:
    with open("constraints-frameworks.txt") as pins:
        wanted = dict(line.strip().split("==") for line in pins if "==" in line)
    assert importlib.metadata.version(package) == wanted[package]
