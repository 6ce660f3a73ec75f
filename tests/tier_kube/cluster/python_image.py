"""An image with Python and nothing of ours, as users' images are, and PyTorch for containers of it.

The image is the lowest layer of the one that ships, so nodes have it nearly for nothing. PyTorch is no layer of it: it
has gigabytes with what it needs, which every node would unpack into memory. It lies in the cache and is mounted where
an installation would be, so that what a container sees is an image that holds torch.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.tier_kube.cluster.buildah import ImageError, with_base
from tests.tier_kube.cluster.cache import cache_root, fingerprint, locked

PYTHON_IMAGE = "docker.io/library/edl-python:1"
PYTHON = "3.11"  # of the base
SITE_PACKAGES = f"/usr/local/lib/python{PYTHON}/dist-packages"
_CONSTRAINTS = Path(__file__).parents[3] / "constraints-frameworks.txt"
_WANTED = ("torch", "numpy")


def python_image() -> Path:
    """As a docker archive. `python` is Python there, as in other images."""
    return with_base(PYTHON_IMAGE, "python", ["ln", "-s", "python3", "/usr/bin/python"])


def torch_directory() -> Path:
    """What `pip install torch` leaves, of the version that the frameworks tier has; minutes the first time."""
    pins = [line for line in _CONSTRAINTS.read_text().splitlines() if line.split("==")[0] in _WANTED]
    directory = cache_root() / f"torch-{fingerprint(PYTHON, 'compiled', *pins)}"
    with locked(directory.with_suffix(".lock")):
        if not directory.exists():
            print(f"fetching {' '.join(pins)} for containers (about 3 GB the first time on a machine)", flush=True)
            _install(pins, directory)
    return directory


def _install(pins: list[str], directory: Path) -> None:
    """By uv, which links from its own cache what the frameworks tier has fetched before."""
    unfinished, tool = directory.with_suffix(".unfinished"), cache_root() / "tools" / "uv"
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(tool), "uv"], {})
    target = ["--compile-bytecode", "--target", str(unfinished), "--python-version", PYTHON]
    _run(
        [str(tool / "bin" / "uv"), "pip", "install", "--quiet", *target, "-c", str(_CONSTRAINTS), *pins],
        {"PYTHONPATH": str(tool)},
    )
    unfinished.rename(directory)


def _run(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(command[:4])} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
