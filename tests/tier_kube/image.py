"""The image that ships, built from the repository's Dockerfile for the tests, so that it is tested as it ships."""

import functools
import os
from pathlib import Path

from tests.tier_kube.cluster.buildah import build_image

REPOSITORY = Path(__file__).parents[2]
# A cluster that is there must be told where it gets the image from.
IMAGE = os.environ.get("EDL_IMAGE", "docker.io/library/edl:test")
_SOURCES = (
    "src",
    "examples",
    "pyproject.toml",
    "constraints-build.txt",
    "constraints-image.txt",
    "README.md",
    "LICENSE",
    ".dockerignore",
)


@functools.cache
def project_image() -> Path:
    """Built once per session, whatever happens to the sources meanwhile."""
    return build_image(REPOSITORY, sources=[REPOSITORY / name for name in _SOURCES], name=IMAGE)
