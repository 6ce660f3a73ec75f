"""The init container of PyTorch pods: carries EDL's pod side and the user's code into images that have neither.

    python -m edl.runtime.carry [--runtime DIRECTORY] [--code PARTS DIGEST DIRECTORY]

Runs in EDL's own image, as any user and on a read-only root: it writes to the named directories alone. What it writes
may be read by every user, and of the code also changed: the worker need not be the user that we are here. Doing it
twice does no harm, for an init container may be started again. Needs the standard library alone.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import IO

import edl

CARRIED = (
    "progress.py",
    "protocol/__init__.py",
    "protocol/progress_server.py",
    "protocol/rendezvous.py",
    "protocol/rounds.py",
    "protocol/tagged.py",
    "runtime/__init__.py",
    "runtime/environment.py",
    "runtime/hugging_face.py",
    "runtime/logs",
    "runtime/tls.py",
    "runtime/torch",
    "torch",
)
"""What pods of PyTorch need: the standard library, torch, and these modules and packages of ours."""

INIT = "runtime/carried_init.py"
"""Takes the place of the package's own `__init__.py`, which offers what is not carried."""

DISTRIBUTION = f"edl_train-{edl.__version__}.dist-info"
METADATA = f"Metadata-Version: 2.1\nName: edl-train\nVersion: {edl.__version__}\n"
ENTRY_POINTS = "[torchrun.handlers]\nedl = edl.runtime.torch.plugin:handler\n"
"""By these torchrun finds the rendezvous backend `edl`."""


class BrokenCodeError(Exception):
    """The parts of the code are not what the job was submitted with."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="edl.runtime.carry", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runtime", type=Path, metavar="DIRECTORY")
    parser.add_argument("--code", nargs=3, metavar=("PARTS", "DIGEST", "DIRECTORY"))
    given = parser.parse_args(words)
    try:
        if given.runtime:
            os.umask(0o022)
            copy_runtime(Path(edl.__file__).parent, given.runtime)
        if given.code:
            os.umask(0)
            parts, digest, directory = given.code
            unpack(Path(parts), digest, Path(directory))
    except (BrokenCodeError, OSError, tarfile.TarError) as error:
        print(f"edl: {error}", file=sys.stderr)
        return 1
    return 0


def copy_runtime(source: Path, target: Path) -> None:
    """`source` is the package `edl`; `target` becomes a directory for PYTHONPATH."""
    package = target / "edl"
    for name in CARRIED:
        for file in modules(source / name):
            _write(package / file.relative_to(source), file.read_bytes())
    version = f'__version__ = "{edl.__version__}"\n'
    _write(package / "__init__.py", (source / INIT).read_bytes() + version.encode())
    _write(target / DISTRIBUTION / "METADATA", METADATA.encode())
    _write(target / DISTRIBUTION / "entry_points.txt", ENTRY_POINTS.encode())


def modules(path: Path) -> list[Path]:
    """Of a package, or the one module."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def unpack(parts: Path, digest: str, target: Path) -> None:
    """The archive whose parts lie in the directory, in the order of their names. Checked as a whole before a file is
    written: a part that is missing must not show as a script that behaves oddly."""
    names = sorted(entry for entry in os.listdir(parts) if not entry.startswith("."))
    found = hashlib.sha256()
    scratch = target / ".edl-code.tar.gz"
    with open(scratch, "wb") as archive:
        for name in names:
            content = (parts / name).read_bytes()
            found.update(content)
            archive.write(content)
    try:
        if found.hexdigest() != digest:
            raise BrokenCodeError(f"the {len(names)} parts in {parts} are not the code of this job; submit it again")
        with tarfile.open(scratch, "r:gz") as packed:
            members = packed.getmembers()
            for member in sorted(members, key=lambda one: one.issym()):  # no file is written through a link
                _extract(packed, member, target)
    finally:
        scratch.unlink()


def _extract(packed: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Nothing is written outside of the target, whoever made the archive."""
    path = target / member.name
    leads_to = os.path.join(os.path.dirname(member.name), member.linkname) if member.issym() else member.name
    if os.path.normpath(leads_to).startswith(("/", "..")):
        raise BrokenCodeError(f"{member.name}: leads out of the working directory")
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        path.mkdir(exist_ok=True)
    elif member.issym():
        path.unlink(missing_ok=True)
        path.symlink_to(member.linkname)
    elif member.isreg():
        content = packed.extractfile(member)
        assert content is not None
        _copy(content, path, 0o777 if member.mode & 0o100 else 0o666)


def _copy(content: IO[bytes], path: Path, mode: int) -> None:
    path.unlink(missing_ok=True)  # a link of an earlier member must not lead elsewhere
    with open(path, "xb") as file:
        shutil.copyfileobj(content, file)
    path.chmod(mode)


if __name__ == "__main__":
    sys.exit(main())
