"""Lists what a release consists of, as CycloneDX JSON: `python -m tests.tier_dist.sbom dist` (`make dist`).

Packages, versions and hashes are those that the image is built from (`constraints-image.txt`); licences and who needs
whom come from the metadata of what is installed here. The same files make the same list, byte by byte.
"""

import hashlib
import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from edl import __version__

REPOSITORY = Path(__file__).parents[2]
NAME = "edl-train"
PINS = REPOSITORY / "constraints-image.txt"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_REQUIRED = re.compile(r"^[A-Za-z0-9._-]+")
Data = dict[str, Any]


def pinned(text: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package, by name."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in text.splitlines():
        if match := _PIN.match(line):
            name = normal(match[1])
            found[name] = match[2], []
        if name:
            found[name][1].extend(_HASH.findall(line))
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def sbom(pins: str, built: list[Path]) -> Data:
    packages = pinned(pins)
    components = [_component(name, version, hashes) for name, (version, hashes) in sorted(packages.items())]
    own = {
        "type": "application",
        "bom-ref": _reference(NAME, __version__),
        "name": NAME,
        "version": __version__,
        "purl": _reference(NAME, __version__),
        "licenses": _licenses(NAME),
        "hashes": [_hash(hashlib.sha256(file.read_bytes()).hexdigest()) for file in built],
    }
    body: Data = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": _dependencies(packages),
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {**body, "serialNumber": f"urn:uuid:{identity}"}


def _component(name: str, version: str, hashes: list[str]) -> Data:
    reference = _reference(name, version)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": _licenses(name),
        "hashes": [_hash(one) for one in hashes],
    }


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _hash(content: str) -> Data:
    return {"alg": "SHA-256", "content": content}


def _licenses(name: str) -> list[Data]:
    """As the package says; none if it is not installed here."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if "License-Expression" in told:
        return [{"expression": told["License-Expression"]}]
    classified = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or () if one.startswith("License")]
    written = told["License"].strip().splitlines() if "License" in told else []
    names = classified or written[:1]
    return [{"license": {"name": one}} for one in names]


def _dependencies(packages: dict[str, tuple[str, list[str]]]) -> list[Data]:
    needed = [(NAME, __version__), *((name, version) for name, (version, _) in sorted(packages.items()))]
    return [{"ref": _reference(name, version), "dependsOn": _needs(name, packages)} for name, version in needed]


def _needs(name: str, packages: dict[str, tuple[str, list[str]]]) -> list[str]:
    try:
        required = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    names = {normal(match[0]) for one in required if (match := _REQUIRED.match(one))}
    return [_reference(one, packages[one][0]) for one in sorted(names & packages.keys())]


def main(directory: Path) -> None:
    built = sorted([*directory.glob("*.whl"), *directory.glob("*.tar.gz")])
    if not built:
        sys.exit(f"there is nothing in {directory} to list: run make dist")
    target = directory / f"{NAME.replace('-', '_')}-{__version__}.cdx.json"
    target.write_text(json.dumps(sbom(PINS.read_text(), built), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
