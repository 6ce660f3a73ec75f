"""The view of a job that scheduler and reconcilers share, whatever its kind: sizes, roles, and the user's wishes.

The size of a job is the number of its leading role's pods (trainers or workers); the other roles follow from it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from edl import __version__

GPU = "nvidia.com/gpu"


class Installation(msgspec.Struct, frozen=True):
    """What differs from one installation of EDL to the next and shows in pods."""

    image: str = f"edl:{__version__}"
    etcd_image: str = "coreos/etcd:v3.5.21"
    """For a job that asks for etcd and names no image; the designs name none, so `edl validate` warns of it."""
    pull_secrets: tuple[str, ...] = ()
    """Of the job's namespace, for pods that run `image` and bring none."""
    gpu: str = GPU
    """The resource under which the cluster counts the devices that a JobResource calls gpu."""


class Role(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`min` and `max` are pods beside the job's smallest and largest declared size, which are `sizes`."""

    name: str
    """As in the names of pods and in the label `edl.dev/role`."""
    min: int
    max: int
    sizes: tuple[int, int]
    lead: bool = False
    template: Mapping[str, Any]
    """PodTemplateSpec; container 0 is the role. Complete but for environment, names, labels and owner."""
    overrides: Mapping[int, Mapping[str, Any]] = {}
    """Templates of single slots, by index, where they differ."""

    @property
    def elastic(self) -> bool:
        return self.min < self.max

    def template_at(self, index: int) -> Mapping[str, Any]:
        return self.overrides.get(index, self.template)


class JobView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    kind: str
    api_version: str
    resource: str
    """The kind's full name, `<plural>.<group>`: of two kinds called ElasticJob this one."""
    tag: str
    """The kind's short name, for names of objects that jobs of several kinds have."""
    namespace: str
    name: str
    uid: str
    generation: int
    creation_timestamp: str | None
    deletion_timestamp: str | None

    priority: int
    priority_source: str
    priority_class: str
    freezing_window: float | None
    """Seconds; None leaves it to the scheduler."""
    pause: bool
    pin: bool
    suspend: bool
    admission: str
    """`hold` or `create`."""

    min: int
    max: int
    start: int
    sizes: tuple[int, ...]
    """Allowed sizes, ascending; empty: every size from min to max."""
    fixed: str
    """Why min and max are one though the user wrote more, or nothing."""

    current: int
    target: int | None
    minimum: int | None = None
    """The minimum in force, if status tells of one: a larger one in the spec counts once it was reached."""
    granted: Mapping[str, int] | None = None
    """Pods of the other roles that were granted, if status tells: more that are asked for since wait."""
    in_force: Mapping[str, int] | None = None
    """Of these, as many as the minimum in force has, if fewer: those that were granted have not run yet."""
    last_scale_time: float | None
    edit: str = ""
    """Names the last edit of its sizes that no freezing window holds up: another text is another edit."""
    request: str = ""
    """The annotation in which a user asks for a size, or for the end of a hold; another text is another request."""
    obeyed: str = ""
    """The last request that was obeyed."""
    held: tuple[int, float] | None = None
    """A size that its user asked for, and until when it is held."""
    pod_seconds: float
    rescale_seconds: float | None
    phase: str
    finished: bool
    reached: bool = False
    """It has run at its minimum before: whatever happens to its pods, it keeps that."""

    roles: tuple[Role, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def elastic(self) -> bool:
        return self.min < self.max

    @property
    def lead(self) -> Role:
        return next(role for role in self.roles if role.lead)

    @property
    def least(self) -> int:
        """The size that it must not fall below."""
        return min(self.lead.min, self.lead.min if self.minimum is None else self.minimum)

    def role(self, name: str) -> Role | None:
        return next((role for role in self.roles if role.name == name), None)


def replicas_at(role: Role, size: int) -> int:
    """Pods of the role in a job of `size`: in proportion between its min and max, rounded; none at size 0."""
    if size <= 0:
        return 0
    if role.lead:
        return size
    least, most = role.sizes
    span = most - least
    if role.min == role.max or span <= 0:
        return role.min
    steps = (min(max(size, least), most) - least) * (role.max - role.min)
    return role.min + (2 * steps + span) // (2 * span)
