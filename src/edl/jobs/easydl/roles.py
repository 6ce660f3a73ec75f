"""The roles of an EasyDL ElasticJob: the trainer alone, until a JobResource says how many others, and how large."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from edl.api.job_view import Installation, Role
from edl.api.kubernetes.templates import Data, whole_template
from edl.jobs.easydl.followed_plan import EVALUATOR, PS, TRAINER, WORKER, followed
from edl.jobs.easydl.job_resource import JobResource, PodResource, RoleResource, container_resources
from edl.jobs.easydl.types import PARAMETER_SERVER, ElasticJob, FollowedPlan

NOTHING = RoleResource(replicas=0)


class EasydlRoles(msgspec.Struct, frozen=True):
    """`job` is defaulted, `resource` is the one that rules it."""

    job: ElasticJob
    resource: JobResource | None
    installation: Installation

    @property
    def plan(self) -> FollowedPlan:
        return followed(self.job, self.resource)

    def all(self) -> tuple[Role, ...]:
        """In the order of making. Without workers the trainer leads."""
        most = self._planned(WORKER).replicas
        sizes = (1, most) if most else (1, 1)
        others = (self._servers(sizes), self._evaluators(sizes, most), self._workers(sizes))
        return (self._trainer(sizes, lead=not most), *(role for role in others if role is not None))

    def _planned(self, name: str) -> RoleResource:
        return (self.plan.roles or {}).get(name, NOTHING)

    def _trainer(self, sizes: tuple[int, int], *, lead: bool) -> Role:
        own = {"name": TRAINER, "image": self.installation.image, "command": ["edl", "trainer"]}
        ours = {"spec": {"automountServiceAccountToken": False, "containers": [own]}}  # it has no business with the API
        spec = self.job.spec.trainer
        template = whole_template((spec and spec.template) or ours, image=self.installation.image)
        return Role(name=TRAINER, min=1, max=1, sizes=sizes, lead=lead, template=template)

    def _workers(self, sizes: tuple[int, int]) -> Role | None:
        """From one to as many as the plan names."""
        return self._role(WORKER, self.job.spec.worker.template, sizes[0], sizes)

    def _servers(self, sizes: tuple[int, int]) -> Role | None:
        """All of them are part of the minimum."""
        spec = self.job.spec
        if spec.distribution_strategy != PARAMETER_SERVER or spec.parameter_server is None:
            return None
        return self._role(PS, spec.parameter_server.template, self._planned(PS).replicas, sizes)

    def _evaluators(self, sizes: tuple[int, int], workers: int) -> Role | None:
        """They are no part of the minimum, and come in proportion with the workers."""
        spec = self.job.spec
        template = (spec.evaluator and spec.evaluator.template) or spec.worker.template
        return self._role(EVALUATOR, template, 0 if workers > 1 else self._planned(EVALUATOR).replicas, sizes)

    def _role(self, name: str, template: Mapping[str, Any], least: int, sizes: tuple[int, int]) -> Role | None:
        planned = self._planned(name)
        if planned.replicas == 0:
            return None
        return Role(
            name=name,
            min=least,
            max=planned.replicas,
            sizes=sizes,
            lead=name == WORKER,
            template=self._template(template, planned.resource),
            overrides=dict(self._overrides(name, template, planned.resource)),
        )

    def _overrides(
        self, name: str, template: Mapping[str, Any], resource: PodResource | None
    ) -> Iterator[tuple[int, Data]]:
        """Slots with resources of their own; what an entry does not name is kept."""
        for update in self.plan.updates:
            index = slot_index(self.job.metadata.name, name, update.name)
            if index is not None:
                yield index, self._template(template, merged(resource, update.resource))

    def _template(self, template: Mapping[str, Any], resource: PodResource | None) -> Data:
        resources = container_resources(resource, self.installation.gpu)
        return whole_template(template, resources, image=self.installation.image)


def slot_index(job: str, role: str, name: str) -> int | None:
    """The index of the slot of this role that has this name, None if it is no such name."""
    prefix = f"{job}-{role}-"
    index = name.removeprefix(prefix)
    if not name.startswith(prefix) or not (index.isascii() and index.isdecimal()):
        return None
    return int(index) if len(index) < 10 and str(int(index)) == index else None


def merged(under: PodResource | None, over: PodResource) -> PodResource:
    if under is None:
        return over
    given = {name: value for name in over.__struct_fields__ if (value := getattr(over, name)) is not None}
    return msgspec.structs.replace(under, **given)
