"""Checks that the lists of a pod template hold objects, before any code of ours reads a member of them.

A template passes through to the API server nearly as it is, so its schema leaves most of it open.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from edl.api.schema.explain import describe
from edl.api.schema.problem import Path, Problem

POD_LISTS = (
    "volumes",
    "imagePullSecrets",
    "hostAliases",
    "topologySpreadConstraints",
    "readinessGates",
    "resourceClaims",
    "schedulingGates",
)
CONTAINER_LISTS = ("env", "envFrom", "volumeMounts", "volumeDevices", "resizePolicy")
TYPED_LISTS = ("tolerations", "containers", "initContainers")
"""The types say what these hold; but a null in them is dropped before the types are asked."""


def list_problems(spec: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Of a pod's spec as it was written."""
    yield from _lists(spec, POD_LISTS, at)
    for name in TYPED_LISTS:
        for index, item in enumerate(_list(spec.get(name))):
            if item is None:
                yield Problem((*at, name, index), "found null, wants an object")
    for part in ("initContainers", "containers"):
        for index, container in enumerate(_list(spec.get(part))):
            if isinstance(container, Mapping):
                yield from _lists(container, CONTAINER_LISTS, (*at, part, index))


def _lists(value: Mapping[str, Any], names: tuple[str, ...], at: Path) -> Iterator[Problem]:
    for name in names:
        items = value.get(name)
        if items is None:
            continue
        if not isinstance(items, list | tuple):
            yield Problem((*at, name), f"found {describe(items)}, wants a list of objects")
            continue
        for index, item in enumerate(items):
            if not isinstance(item, Mapping):
                yield Problem((*at, name, index), f"found {describe(item)}, wants an object")


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else ()
