"""Packs the directory of a script for a cluster, within bounds: what is too large or cannot be read is named.

The archive depends on names and contents alone, so the same code has the same digest wherever and whenever it is
packed. Left out is what `edl.cli.input.ignore` says, and what is no file, directory or link that stays inside.
"""

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from edl.api.annotations import MAX_PARTS
from edl.cli.errors import CommandError
from edl.cli.input.ignore import Ignored

PART_BYTES = 700 * 1024  # a ConfigMap holds 1 MiB at most, and travels as base64
MAX_PACKED = MAX_PARTS * PART_BYTES
MAX_BYTES = 100 << 20
MAX_FILES = 10_000
_SHOWN = 5


class Code(msgspec.Struct, frozen=True):
    """`left_out`: links that lead out of the directory, and what is neither file nor directory."""

    archive: bytes
    files: int
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.archive).hexdigest()

    @property
    def parts(self) -> list[bytes]:
        return [self.archive[at : at + PART_BYTES] for at in range(0, len(self.archive), PART_BYTES)]


def pack(directory: Path) -> Code:
    """Everything in the directory that is not ignored; CommandError says what stands in the way."""
    found = _Found()
    _look(directory, directory, Ignored.at(directory), found)
    if found.unreadable:
        raise CommandError(
            f"{_some(found.unreadable)}: cannot be read; give yourself the right, or name it in .edlignore"
        )
    total = sum(found.files.values())
    if len(found.files) > MAX_FILES:
        raise CommandError(f"{directory} has {len(found.files)} files, at most {MAX_FILES} are shipped; {_hint()}")
    if total > MAX_BYTES:
        raise CommandError(_too_large(directory, found.files, f"has {_size(total)}", MAX_BYTES))
    archive = _archive(directory, found)
    if len(archive) > MAX_PACKED:
        raise CommandError(_too_large(directory, found.files, f"has {_size(len(archive))} packed", MAX_PACKED))
    return Code(archive, len(found.files), tuple(found.left_out))


def pack_file(file: Path) -> Code:
    """One file alone, as its directory's only one."""
    found = _Found()
    found.files[file.name] = file.stat().st_size
    return Code(_archive(file.parent, found), 1)


class _Found:
    """By paths relative to the top, sorted as they were met."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.links: dict[str, str] = {}
        self.directories: list[str] = []
        self.unreadable: list[str] = []
        self.left_out: list[str] = []


def _look(top: Path, folder: Path, ignored: Ignored, found: _Found) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        ignored = ignored.below(folder)
    except OSError as error:
        found.unreadable.append(os.path.relpath(error.filename or folder, top))
        return
    for entry in entries:
        path = Path(entry.path)
        directory = entry.is_dir(follow_symlinks=False)
        if ignored.is_out(path, directory=directory):
            continue
        name = path.relative_to(top).as_posix()
        if entry.is_symlink():
            _link(top, path, name, found)
        elif directory:
            found.directories.append(name)
            _look(top, path, ignored, found)
        elif not entry.is_file(follow_symlinks=False):
            found.left_out.append(name)
        elif not _readable(path):
            found.unreadable.append(name)
        else:
            found.files[name] = entry.stat(follow_symlinks=False).st_size


def _readable(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _link(top: Path, path: Path, name: str, found: _Found) -> None:
    target = os.readlink(path)
    leads_to = os.path.normpath(os.path.join(path.parent, target))
    if os.path.isabs(target) or not Path(leads_to).is_relative_to(top):
        found.left_out.append(name)
    else:
        found.links[name] = target


def _archive(top: Path, found: _Found) -> bytes:
    plain = io.BytesIO()
    with gzip.GzipFile(fileobj=plain, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for entry in _entries(top, found):
            if entry.isreg():
                with open(top / entry.name, "rb") as content:
                    archive.addfile(entry, _Exactly(content.read(entry.size), entry.size))
            else:
                archive.addfile(entry)
    return plain.getvalue()


class _Exactly(io.BytesIO):
    """A file that shrank since it was looked at still fills its place."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content.ljust(size, b"\0"))


def _entries(top: Path, found: _Found) -> Iterator[tarfile.TarInfo]:
    for name in found.directories:
        yield _entry(name, tarfile.DIRTYPE, 0o777)
    for name, size in found.files.items():
        entry = _entry(name, tarfile.REGTYPE, (top / name).stat().st_mode & 0o777)
        entry.size = size
        yield entry
    for name, target in found.links.items():
        entry = _entry(name, tarfile.SYMTYPE, 0o777)
        entry.linkname = target
        yield entry


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _too_large(directory: Path, files: dict[str, int], how: str, limit: int) -> str:
    largest = sorted(files.items(), key=lambda one: -one[1])[:_SHOWN]
    named = ", ".join(f"{name} ({_size(size)})" for name, size in largest)
    return f"{directory} {how}, at most {_size(limit)} are shipped; the largest: {named}; {_hint()}"


def _hint() -> str:
    return "name in .edlignore what the script does not need, or put data on a volume or into the image (--no-ship)"


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / 1024:.0f} KiB"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
