"""Checks the pods of a job before they are created, as Kubernetes would: resources, containers, their names."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from edl.api.kubernetes import names, quantity
from edl.api.kubernetes.container_checks import container_problems
from edl.api.kubernetes.core import without_nulls
from edl.api.kubernetes.list_checks import list_problems
from edl.api.kubernetes.pod import Container, PodTemplate
from edl.api.kubernetes.pod_fields import CONTAINER_FIELDS, POD_SPEC_FIELDS, TEMPLATE_FIELDS
from edl.api.schema.explain import Explainer
from edl.api.schema.nearest import nearest
from edl.api.schema.problem import MAX_PROBLEMS, Path, Problem, warning
from edl.api.schema.shape import shape_of

GPU_RESOURCES = ("nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu")

_NATIVE = ("cpu", "memory", "ephemeral-storage")
Amounts = Mapping[str, quantity.Quantity]


def is_gpu(resource: str) -> bool:
    return resource in GPU_RESOURCES or resource.endswith("/gpu")


def resource_problems(requests: Amounts, limits: Amounts, at: Path) -> Iterator[Problem]:
    sound: dict[str, Mapping[str, int]] = {}
    for part, amounts in (("requests", requests), ("limits", limits)):
        wrong = {name: problem for name in amounts if (problem := _amount_problem(name, amounts[name]))}
        for name, problem in wrong.items():
            yield Problem((*at, part, name), problem)
        sound[part] = {name: quantity.nano(amount) for name, amount in amounts.items() if name not in wrong}
    for name, request in sound["requests"].items():
        limit = sound["limits"].get(name)
        if limit is not None and request > limit:
            yield Problem(
                (*at, "requests", name), f"{requests[name]} is more than the limit {limits[name]}; raise limits.{name}"
            )
        elif "/" in name and request != limit and name not in limits:
            yield Problem((*at, "requests", name), f"wants the same under limits.{name}: it cannot be overcommitted")
        elif "/" in name and limit is not None and request != limit:
            yield Problem(
                (*at, "requests", name), f"{requests[name]} is not the limit {limits[name]}; they must be equal"
            )


@functools.lru_cache(maxsize=1 << 12, typed=True)
def _amount_problem(name: str, amount: quantity.Quantity) -> str | None:
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        near = nearest(name, (*_NATIVE, "nvidia.com/gpu")) or ("nvidia.com/gpu" if "gpu" in name.lower() else None)
        others = f", others than {', '.join(_NATIVE)} are named vendor/resource"
        return f"unknown resource{f'; did you mean {near}?' if near else others}"
    if problem := names.label_key_problem(name) or quantity.problem(amount):
        return problem
    if "/" in name and quantity.nano(amount) % quantity.NANO:
        return f"{amount} is not a whole number, which {name} must be"
    return None


def lacks_cpu(requests: Amounts, limits: Amounts) -> bool:
    """It asks for GPUs and leaves their CPU to chance."""
    return any(is_gpu(name) for name in (*requests, *limits)) and "cpu" not in requests and "cpu" not in limits


def template_problems(
    template: Mapping[str, Any], at: Path, *, role: str = "", own_image: bool = False
) -> Iterator[Problem]:
    """`role`: the name of the one container that gets its image from elsewhere; without it the first must name one,
    unless there is EDL's `own_image` for it."""
    yield from _unknown_fields(template, TEMPLATE_FIELDS, at)
    spec = template.get("spec")
    if isinstance(spec, dict):
        yield from _unknown_fields(spec, POD_SPEC_FIELDS, (*at, "spec"))
        yield from list_problems(spec, (*at, "spec"))
    tainted: list[Path] = []
    try:
        pod = msgspec.convert(template, PodTemplate)
    except msgspec.ValidationError:
        explained = Explainer(without_nulls(template), shape_of(PodTemplate))
        yield from (Problem((*at, *problem.at), problem.message) for problem in explained.problems)
        tainted = [(*at, *bad) for bad in explained.tainted]
        pod = msgspec.convert(explained.mended, PodTemplate)
    for problem in _pod_problems(pod, spec if isinstance(spec, dict) else {}, at, role, own_image):
        if not any(problem.at[: len(bad)] == bad for bad in tainted):
            yield problem


def _pod_problems(pod: PodTemplate, raw: Mapping[str, Any], at: Path, role: str, own_image: bool) -> Iterator[Problem]:
    if not role and not pod.spec.containers:
        yield Problem((*at, "spec", "containers"), "is required: a container with an image")
    first = pod.spec.containers[0].name if own_image and pod.spec.containers else ""
    yield from _container_problems(pod, raw, (*at, "spec"), role or first)
    yield from _port_problems(raw, (*at, "spec"))
    yield from label_problems(pod.metadata.labels, (*at, "metadata", "labels"))


def _container_problems(pod: PodTemplate, raw: Mapping[str, Any], at: Path, role: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for part, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers):
            where = (*at, part, index)
            yield from _one_container(container, where, image_elsewhere=bool(role) and container.name == role)
            if container.name in seen:
                yield Problem((*where, "name"), f'"{container.name}" is the name of two containers')
            seen.add(container.name)
            fields = _item(raw.get(part), index)
            yield from _unknown_fields(fields, CONTAINER_FIELDS, where)
            yield from container_problems(fields, where)


def _port_problems(raw: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Ports that Kubernetes would refuse, as clashing within one pod, or that let a node have one such pod alone."""
    held: dict[tuple[Any, Any], Path] = {}
    for part in ("initContainers", "containers"):
        for index, container in enumerate(_items(raw.get(part))):
            names: set[str] = set()
            for number, port in enumerate(_items(_item([container], 0).get("ports"))):
                where, fields = (*at, part, index, "ports", number), _item([port], 0)
                if (name := fields.get("name")) in names:
                    yield Problem((*where, "name"), f'"{name}" is the name of two ports of the container')
                names |= {name} if isinstance(name, str) else set()
                if host := fields.get("hostPort"):
                    yield from _host_port(host, fields.get("protocol") or "TCP", (*where, "hostPort"), held)


def _host_port(port: Any, protocol: Any, at: Path, held: dict[tuple[Any, Any], Path]) -> Iterator[Problem]:
    if not isinstance(port, int) or not isinstance(protocol, str):
        return  # Kubernetes says so when the pod is made
    if (port, protocol) in held:
        yield Problem(at, f"{port} is taken by another port of the pod; give each its own, or leave hostPort out")
    else:
        yield warning(at, f"{port} of the node: only one such pod fits on a node, which the plan does not count")
    held[port, protocol] = at


def _one_container(container: Container, at: Path, *, image_elsewhere: bool) -> Iterator[Problem]:
    if problem := names.dns_label_problem(container.name):
        yield Problem((*at, "name"), problem if container.name else "is required: the name of the container")
    if not container.image and not image_elsewhere:
        yield Problem((*at, "image"), "is required: the image of the container")
    elif problem := image_problem(container.image):
        yield Problem((*at, "image"), problem)
    yield from resource_problems(container.resources.requests, container.resources.limits, (*at, "resources"))


def image_problem(image: str) -> str | None:
    return f'"{image[:60]}" has a space in it' if any(character.isspace() for character in image) else None


def label_problems(labels: Mapping[str, str], at: Path) -> Iterator[Problem]:
    for name, value in labels.items():
        if problem := names.label_key_problem(name) or names.label_value_problem(value):
            yield Problem((*at, name), problem)


def _unknown_fields(value: Mapping[str, Any], known: Sequence[str], at: Path) -> Iterator[Problem]:
    """A warning, not an error: a newer Kubernetes may know the field, and it is passed on as it stands."""
    unknown = (str(name) for name in value if name not in known)
    for name in itertools.islice(unknown, MAX_PROBLEMS):
        if near := nearest(name, known):
            yield warning((*at, name), f"Kubernetes knows no such field, it is passed on; did you mean {near}?")


def _items(items: Any) -> Sequence[Any]:
    return items if isinstance(items, list | tuple) else ()


def _item(items: Any, index: int) -> Mapping[str, Any]:
    item = items[index] if isinstance(items, list | tuple) and index < len(items) else None
    return item if isinstance(item, dict) else {}
