"""Resource requests as integers: kube-scheduler's arithmetic, so that a plan and the cluster agree to the unit.

CPU counts in millicores, everything else in whole units (bytes, devices), each quantity rounded up as Kubernetes
does. All sums are exact; a tenth of a core ten times is a core.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from edl.api.kubernetes import quantity
from edl.api.kubernetes.core import Container, PodSpec, ResourceList, ResourceRequirements
from edl.api.kubernetes.pod import ContainerStatus

Amounts = dict[str, int]
Vector = tuple[int, ...]

CPU, MEMORY, PODS = "cpu", "memory", "pods"
GPU_NAMES = (
    "nvidia.com/gpu",
    "alpha.kubernetes.io/nvidia-gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
)
# Larger than any real machine and small enough that sums of many stay far below 2^63, where numpy would wrap.
CEILING = 2**56
_MOST_READ = 1 << 14
_read: "dict[tuple[int, int], _Read]" = {}
DEFAULT_PODS_PER_NODE = 110  # kubelet's own default, for nodes that do not say


class _Read(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits of a container, each filled in from the other. Shared: nobody may change them."""

    resources: ResourceRequirements
    requests: Amounts
    limits: Amounts
    occupies: Amounts
    """Of a pod that has no other container."""


def amount(name: str, value: quantity.Quantity) -> int:
    """One quantity as an integer from 0 to CEILING. What is no quantity counts as nothing: validation reports it."""
    try:
        units = quantity.milli(value) if name == CPU else quantity.whole(value)
    except ValueError:
        return 0
    return min(max(units, 0), CEILING)


def amounts(resources: ResourceList) -> Amounts:
    return {name: amount(name, value) for name, value in resources.items()}


def pod_amounts(
    spec: PodSpec, statuses: Sequence[ContainerStatus] = (), *, infeasible: bool = False
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """What a pod takes of a node, itself included, and its limits. Most pods are one container and share both."""
    statuses = [status for status in statuses if status.resources is not None]
    more = spec.init_containers or spec.overhead or spec.resources or statuses
    if len(spec.containers) == 1 and not more:
        read = _both(spec.containers[0].resources)
        return read.occupies, read.limits
    return pod_requests(spec, statuses, infeasible=infeasible) | {PODS: 1}, pod_limits(spec)


def pod_requests(spec: PodSpec, statuses: Sequence[ContainerStatus] = (), *, infeasible: bool = False) -> Amounts:
    """What a pod occupies: the larger of what its containers ask together and what its start needs, plus overhead.

    While a container is being resized it holds the larger of what it had and what it is to have. With `infeasible` its
    node can never give the pod what its spec asks: it holds what it has.
    """
    given = {status.name: amounts(status.resources.requests) for status in statuses if status.resources is not None}
    total = _pod_total(spec, _while_resized(given, infeasible) if given else container_requests)
    if spec.resources is not None:
        total.update(amounts(spec.resources.limits) | amounts(spec.resources.requests))
    if spec.overhead:
        add(total, amounts(spec.overhead))
    return total


def _while_resized(given: Mapping[str, Amounts], infeasible: bool) -> Callable[[Container], Mapping[str, int]]:
    def asked(container: Container) -> Mapping[str, int]:
        if infeasible and container.name in given:
            return given[container.name]
        return _larger(container_requests(container), given.get(container.name, {}))

    return asked


def pod_limits(spec: PodSpec) -> Amounts:
    """What a pod may use at most: limits, and requests where a container has none (decision 19)."""
    total = _pod_total(spec, container_limits)
    if spec.resources is not None:
        total.update(amounts(spec.resources.requests) | amounts(spec.resources.limits))
    if spec.overhead:
        add(total, amounts(spec.overhead))
    return total


def container_requests(container: Container) -> Mapping[str, int]:
    """A limit without a request is the request, as the API server would have it."""
    return _both(container.resources).requests


def container_limits(container: Container) -> Mapping[str, int]:
    return _both(container.resources).limits


def _both(resources: ResourceRequirements) -> _Read:
    """Many pods share few mappings (see `edl.api.kubernetes.pod.shared`), so each is read once; the entry holds on to
    its mappings, so that no other can come to bear their ids."""
    key = id(resources.requests), id(resources.limits)
    known = _read.get(key)
    if known is None:
        if len(_read) >= _MOST_READ:
            _read.clear()
        asked, most = amounts(resources.requests), amounts(resources.limits)
        requests = most | asked
        known = _read[key] = _Read(resources, requests, asked | most, requests | {PODS: 1})
    return known


def add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, units in more.items():
        total[name] = total.get(name, 0) + units


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    if not other:
        return dict(one)
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def _pod_total(spec: PodSpec, of_container: Callable[[Container], Mapping[str, int]]) -> Amounts:
    """Sidecars stay and add up; the other init containers run one after another beside the sidecars before them."""
    containers = spec.containers or (Container(),)
    total: Amounts = dict(of_container(containers[0]))
    for container in containers[1:]:
        add(total, of_container(container))
    if not spec.init_containers:
        return total
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        asked = of_container(container)
        if container.restart_policy == "Always":
            add(sidecars, asked)
            peak = _larger(peak, sidecars)
        else:
            beside = dict(sidecars)
            add(beside, asked)
            peak = _larger(peak, beside)
    add(total, sidecars)
    return _larger(total, peak)


class Axes:
    """The resources that matter in one snapshot, in a fixed order: an axis is an index into a `Vector`."""

    __slots__ = ("gpus", "index", "names")

    def __init__(self, asked: Iterable[str], gpu_names: Iterable[str] = GPU_NAMES) -> None:
        first = (CPU, MEMORY, PODS)
        self.names: tuple[str, ...] = (*first, *sorted(set(asked) - set(first)))
        self.index = {name: axis for axis, name in enumerate(self.names)}
        self.gpus = tuple(self.index[name] for name in self.names if name in set(gpu_names))

    def vector(self, values: Mapping[str, int]) -> Vector:
        return tuple([values.get(name, 0) for name in self.names])

    def gpu_count(self, vector: Vector) -> int:
        return sum([vector[axis] for axis in self.gpus])


def show(name: str, units: int) -> str:
    """An amount for people: `3 CPU`, `1.5 GiB memory`, `8 GPUs`."""
    if name == CPU:
        return f"{_trim(units / 1000)} CPU"
    if name in GPU_NAMES:
        return f"{units} GPU" if units == 1 else f"{units} GPUs"
    if name == MEMORY or name.endswith("storage"):
        what = "memory" if name == MEMORY else name
        return f"{_trim(units / 2**30)} GiB {what}" if units >= 2**30 else f"{_trim(units / 2**20)} MiB {what}"
    return f"{units} {name}"


def _trim(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
