"""Privileges of pods that run EDL's own image: none, by the terms of Pod Security's level `restricted`.

The image runs as an unprivileged user whatever we say; to say so lets its pods into namespaces that insist. It calls no
API server, so it gets no token of the namespace's account. What the user wrote counts more, and pods with an image of
the user's are the user's to restrict.
"""

from collections.abc import Mapping
from typing import Any

_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def unprivileged(spec: Mapping[str, Any], image: str) -> dict[str, Any]:
    """The spec of a pod, restricted if all its containers are of EDL's image. Nothing of the argument is changed."""
    restricted = dict(spec)
    parts = [part for part in ("containers", "initContainers") if spec.get(part)]
    if any(container.get("image") != image for part in parts for container in spec[part]):
        return restricted
    restricted.setdefault("securityContext", _POD)
    if not spec.get("serviceAccountName"):
        restricted.setdefault("automountServiceAccountToken", False)
    for part in parts:
        restricted[part] = [{"securityContext": _CONTAINER, **container} for container in spec[part]]
    return restricted
