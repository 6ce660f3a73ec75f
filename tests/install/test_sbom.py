"""The list of what a release consists of: every package of the image with its hashes, the same list each time."""

import hashlib
from pathlib import Path

from edl import __version__
from tests.tier_dist.sbom import NAME, PINS, pinned, sbom


def test_every_package_of_the_image_is_listed_with_its_hashes(tmp_path: Path) -> None:
    wheel = tmp_path / "edl_train-1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    text = PINS.read_text()
    listed = sbom(text, [wheel])
    own = listed["metadata"]["component"]
    assert (own["name"], own["version"]) == (NAME, __version__)
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]
    by_name = {one["name"]: one for one in listed["components"]}
    assert set(by_name) == set(pinned(text))
    assert sum(len(one["hashes"]) for one in listed["components"]) == text.count("--hash=sha256:")
    assert by_name["aiohttp"]["purl"] == f"pkg:pypi/aiohttp@{by_name['aiohttp']['version']}"
    assert by_name["msgspec"]["licenses"], "licences come from what is installed"
    assert listed == sbom(text, [wheel])


def test_who_needs_whom_is_told_of_listed_packages_alone() -> None:
    listed = sbom(PINS.read_text(), [])
    known = {one["bom-ref"] for one in (listed["metadata"]["component"], *listed["components"])}
    edges = {one["ref"]: one["dependsOn"] for one in listed["dependencies"]}
    assert set(edges) == known
    assert all(target in known for targets in edges.values() for target in targets)
    (ours,) = [targets for ref, targets in edges.items() if ref.startswith(f"pkg:pypi/{NAME}@")]
    assert any(one.startswith("pkg:pypi/aiohttp@") for one in ours)


def test_pins_are_read_with_their_markers() -> None:
    text = 'Some_Package==1.2 ; python_version < "3.12" \\\n    --hash=sha256:' + "a" * 64 + "\nother==2 \\\n"
    assert pinned(text) == {"some-package": ("1.2", ["a" * 64]), "other": ("2", [])}
