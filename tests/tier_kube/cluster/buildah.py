"""Builds images without a Docker engine: a Debian base by debootstrap, a Dockerfile on top of it by buildah.

buildah's storage lies in the cache too, so an image whose early steps did not change is built from their layers.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.tier_kube.cluster.cache import cache_root, fingerprint, locked
from tests.tier_kube.cluster.packages import program, require_root

SUITE = "bookworm"
PACKAGES = "python3,python3-venv,ca-certificates"
# What slim images leave out: half of the files, and it is files that make an image slow to unpack.
_UNUSED = "usr/share/doc usr/share/man usr/share/locale usr/share/info var/cache/apt/archives var/lib/apt/lists"
_KEPT = 3
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# What pip on this machine needs to find packages, pip in the image needs too.
_PASSED_ON = ("PIP_INDEX_URL",)


class ImageError(Exception):
    """An image could not be built; the message shows the end of what the builder said."""


def build_image(context: Path, *, sources: list[Path], name: str) -> Path:
    """The image of the Dockerfile in `context` as a docker archive, built anew when it or `sources` changed."""
    dockerfile = context / "Dockerfile"
    archive = cache_root() / "images" / f"edl-{fingerprint(dockerfile, name, SUITE, PACKAGES, _UNUSED, *sources)}.tar"
    if archive.exists():
        return archive
    require_root()
    with locked(cache_root() / "images" / ".lock"):
        if not archive.exists():
            print(f"building the image {name}", flush=True)
            _build(context, _base_image(), name)
            _export(name, archive)
            _forget_old()
    return archive


def with_base(name: str, stem: str, command: list[str]) -> Path:
    """The base image in which one command was run, as a docker archive."""
    archive = cache_root() / "images" / f"{stem}-{fingerprint(name, SUITE, PACKAGES, _UNUSED, *command)}.tar"
    if archive.exists():
        return archive
    require_root()
    with locked(cache_root() / "images" / ".lock"):
        if not archive.exists():
            container = _buildah("from", _base_image()).strip()
            _buildah("run", "--isolation=chroot", container, *command)
            _buildah("commit", "--quiet", "--rm", container, name)
            _export(name, archive)
    return archive


def _build(context: Path, base: str, name: str) -> None:
    arguments = {"BASE": base} | {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
    mounts = []
    if _CERTIFICATES.exists():
        # A machine behind an inspecting proxy trusts it by these; on any other they are the usual ones.
        arguments["PIP_CERT"] = str(_CERTIFICATES)
        mounts = ["-v", f"{_CERTIFICATES.parent}:{_CERTIFICATES.parent}:ro"]
    given = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
    _buildah("bud", "--layers", "--isolation=chroot", "--network=host", *mounts, *given, "-t", name, str(context))


def _export(name: str, archive: Path) -> None:
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    _buildah("push", name, f"docker-archive:{unfinished}:{name}")
    unfinished.rename(archive)


def _forget_old() -> None:
    """Every change of the sources makes an archive of hundreds of megabytes; buildah's own layers share nearly all."""
    archives = sorted((cache_root() / "images").glob("edl-*.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-_KEPT]:
        archive.unlink()


def _base_image() -> str:
    """A minimal Debian with Python, bootstrapped once."""
    name = f"localhost/edl-base:{fingerprint(SUITE, PACKAGES, _UNUSED)}"
    if _buildah("images", "--quiet", "--filter", f"reference={name}").strip():
        return name
    print(f"bootstrapping a base image from Debian {SUITE}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache_root()) as directory:
        tree = Path(directory) / "root"
        _run([program("debootstrap"), "--variant=minbase", f"--include={PACKAGES}", SUITE, str(tree), *_mirror()])
        for unused in _UNUSED.split():
            shutil.rmtree(tree / unused, ignore_errors=True)
        container = _buildah("from", "scratch").strip()
        _buildah("add", "--quiet", container, str(tree), "/")
        _buildah("commit", "--quiet", "--rm", container, name)
    return name


def _mirror() -> list[str]:
    """Where this machine gets the suite from, if it is a Debian of that suite; else debootstrap's own choice."""
    command = ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"]
    for line in _run(command).splitlines():
        codename, _, uri = line.partition(" ")
        if codename == SUITE:
            return [uri]
    return []


def _buildah(*arguments: str) -> str:
    storage = cache_root() / "buildah"
    return _run([program("buildah"), "--root", str(storage), "--runroot", str(storage / "run"), *arguments])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(command[:3])} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout
