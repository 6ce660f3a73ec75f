"""The examples find their scripts: in a checkout, and in the image, whose working directory holds the same tree."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.yaml"))
SCRIPT = re.compile(r"(?<![\w/])examples/[\w/.-]+\.py\b")


def commands(value: Any) -> list[str]:
    """Every text of a manifest: what runs may be an entrypoint, a command or its arguments."""
    if isinstance(value, dict):
        return [text for part in value.values() for text in commands(part)]
    if isinstance(value, list):
        return [text for part in value for text in commands(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.case("acceptance-25")
@pytest.mark.parametrize("manifest", MANIFESTS, ids=str)
def test_scripts_are_where_manifests_look_for_them(manifest: Path) -> None:
    texts = [text for body in yaml.safe_load_all((ROOT / manifest).read_text()) for text in commands(body)]
    missing = [script for text in texts for script in SCRIPT.findall(text) if not (ROOT / script).is_file()]
    assert missing == []


def test_the_image_holds_the_examples_in_its_working_directory() -> None:
    *_, last_stage = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert "COPY examples /edl/examples" in last_stage
    assert re.findall(r"^WORKDIR (\S+)$", last_stage, re.MULTILINE) == ["/edl"]


def test_only_examples_that_need_a_framework_name_an_image_of_their_own() -> None:
    """EDL's own image is the installation's, whose name no manifest can know."""
    for manifest in MANIFESTS:
        text = (ROOT / manifest).read_text()
        assert not re.search(r"image: edl(:\S*)?\s*$", text, re.MULTILINE), manifest
