"""Pod templates as plain data: what the user gave, merged under what the job says.

The result is whole but for what differs from pod to pod (names, labels, environment, owner), which `edl.jobs` adds.
Nothing here changes its arguments; parts that need no change are shared.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from edl.api.schema.spec import Resources

Data = dict[str, Any]


def role_template(template: Mapping[str, Any] | None, role: str, container: Data) -> Data:
    """Container 0 is the role's: the template's container of that name with `container` laid over it.

    Other containers of the template follow as they are.
    """
    spec = dict(_mapping(_mapping(template).get("spec")))
    given = [dict(item) for item in spec.get("containers") or () if isinstance(item, Mapping)]
    mine: Data = next((item for item in given if item.get("name") == role), {})
    spec["containers"] = [{**mine, **container, "name": role}, *(item for item in given if item is not mine)]
    return _finished(template, spec)


def whole_template(template: Mapping[str, Any], resources: Mapping[str, str] | None = None, *, image: str = "") -> Data:
    """A template that brings its own containers; `resources` are set on the first one, as requests and limits.

    `image`: for the first one if it names none.
    """
    spec = dict(_mapping(template.get("spec")))
    containers = [dict(item) for item in spec.get("containers") or () if isinstance(item, Mapping)]
    if image and containers and not containers[0].get("image"):
        containers[0]["image"] = image
    if resources and containers:
        first = _mapping(containers[0].get("resources"))
        parts = {part: {**_mapping(first.get(part)), **resources} for part in ("requests", "limits")}
        containers[0]["resources"] = {**first, **parts}
    spec["containers"] = containers
    return _finished(template, spec)


def _finished(template: Mapping[str, Any] | None, spec: Data) -> Data:
    spec["containers"] = [_with_requests(container) for container in spec["containers"]]
    metadata = _mapping(_mapping(template).get("metadata"))
    kept = {name: dict(metadata[name]) for name in ("labels", "annotations") if metadata.get(name)}
    return {"metadata": kept, "spec": spec}


def _with_requests(container: Data) -> Data:
    """Kubernetes takes a limit for the request that is omitted; so must whoever plans before Kubernetes has seen it."""
    resources = _mapping(container.get("resources"))
    if not resources.get("limits"):
        return container
    requests = {**resources["limits"], **_mapping(resources.get("requests"))}
    return {**container, "resources": {**resources, "requests": requests}}


def verbatim(text: str) -> str:
    """So written, it reaches the program as it was: Kubernetes reads `$$` in commands and variables as `$`."""
    return text.replace("$$", "$$$$")


def resources_data(resources: Resources | None) -> Data:
    """As the `resources` of a container, to be laid over it; nothing if the job says nothing."""
    if resources is None:
        return {}
    parts = {"requests": resources.requests, "limits": resources.limits}
    return {"resources": {name: dict(part) for name, part in parts.items() if part}}


def joined(under: object, over: Iterable[Mapping[str, Any]] | None, key: str) -> list[Mapping[str, Any]]:
    """Two lists of named things as one; where both name a thing, `over` has it."""
    below = [item for item in under if isinstance(item, Mapping)] if isinstance(under, list | tuple) else []
    above = list(over or ())
    if not above:
        return below
    names = {item.get(key) for item in above}
    return [*(item for item in below if item.get(key) not in names), *above]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, (dict, Mapping)) else {}  # a dict is told far sooner than other mappings
