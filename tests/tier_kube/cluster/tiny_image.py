"""A two-megabyte image with busybox: the sandbox of every pod, and containers that need no more than a shell."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from tests.tier_kube.cluster.cache import cache_root, fingerprint, locked
from tests.tier_kube.cluster.packages import program

TINY_IMAGE = "docker.io/library/edl-tiny:1"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Not wget: the static busybox of Debian bookworm crashes in it. `nc` does.
_APPLETS = (
    "cat echo env false grep hostname httpd id ip kill ls mkdir nc nslookup printf ps "
    "rm sed sh sleep stat tail test touch true wc yes"
)


def tiny_image() -> Path:
    """The image as a docker archive, made by hand: it takes a layer, a configuration and a manifest."""
    busybox = Path(program("busybox"))
    archive = cache_root() / "images" / f"tiny-{fingerprint(busybox, _APPLETS)}.tar"
    with locked(archive.with_suffix(".lock")):  # all nodes of all workers want it at once
        if not archive.exists():
            unfinished = archive.with_suffix(".unfinished")
            _write(unfinished, _layer(busybox))
            unfinished.rename(archive)
    return archive


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory, mode in (("bin", 0o755), ("tmp", 0o1777), ("etc", 0o755)):
            tar.addfile(_entry(directory, tarfile.DIRTYPE, mode))
        program_entry = _entry("bin/busybox", tarfile.REGTYPE, 0o755)
        program_entry.size = busybox.stat().st_size
        with busybox.open("rb") as content:
            tar.addfile(program_entry, content)
        for applet in _APPLETS.split():
            link = _entry(f"bin/{applet}", tarfile.SYMTYPE, 0o777)
            link.linkname = "busybox"
            tar.addfile(link)
    return buffer.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _write(archive: Path, layer: bytes) -> None:
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "2147483647"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [TINY_IMAGE], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            entry = _entry(name, tarfile.REGTYPE, 0o644)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
