"""Secrets that nodes fetch EDL's own image with, for pods of jobs that run it. A template's own Secrets stay.

They must be in the job's namespace: Kubernetes lets no pod use those of another one.
"""

from collections.abc import Mapping
from typing import Any

from edl.api.job_view import Installation


def fetched_with(spec: Mapping[str, Any], installation: Installation) -> dict[str, Any]:
    """The spec of a pod, with the installation's Secrets if it runs EDL's image and names none. Those that it names are
    for the user's image, if it runs one beside ours: then both count."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    ours = [container.get("image") == installation.image for container in containers]
    given = list(spec.get("imagePullSecrets") or ())
    if not any(ours) or (given and all(ours)):
        return dict(spec)
    missing = [{"name": name} for name in installation.pull_secrets if {"name": name} not in given]
    return {**spec, "imagePullSecrets": [*given, *missing]} if missing else dict(spec)
