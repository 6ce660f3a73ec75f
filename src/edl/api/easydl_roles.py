"""The roles of an EasyDL ElasticJob: the trainer alone, until a JobResource says how many others, and how large."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from edl.api.easydl_job import PARAMETER_SERVER, ElasticJob
from edl.api.job_resource import JobResource, PodResource, RoleResource, WorkerResource, container_resources
from edl.api.roles import Installation, Role
from edl.api.status import ReplicaCounts
from edl.api.templates import Data, whole_template

TRAINER, PS, WORKER, EVALUATOR = "trainer", "ps", "worker", "evaluator"


class EasydlRoles(msgspec.Struct, frozen=True):
    """`job` is defaulted."""

    job: ElasticJob
    resource: JobResource | None
    installation: Installation

    def all(self) -> tuple[Role, ...]:
        """Without workers the trainer leads, alone."""
        workers = self._workers()
        if workers is None:
            return (self._trainer((1, 1), lead=True),)
        others = (self._servers(workers), workers, self._evaluators(workers))
        return (self._trainer(workers.sizes), *(role for role in others if role is not None))

    def _trainer(self, sizes: tuple[int, int], *, lead: bool = False) -> Role:
        own = {"name": TRAINER, "image": self.installation.image, "command": ["edl", "trainer"]}
        spec = self.job.spec.trainer
        template = whole_template((spec and spec.template) or {"spec": {"containers": [own]}})
        return Role(name=TRAINER, min=1, max=1, sizes=sizes, lead=lead, template=template)

    def _workers(self) -> Role | None:
        plan = self.resource.spec.worker if self.resource else None
        most = self._count(WORKER, plan)
        least = 1 if plan else most
        return self._role(WORKER, plan, self.job.spec.worker.template, least, most, (least, most))

    def _servers(self, workers: Role) -> Role | None:
        spec = self.job.spec
        if spec.distribution_strategy != PARAMETER_SERVER or spec.parameter_server is None:
            return None
        plan = self.resource.spec.parameter_server if self.resource else None
        count = self._count(PS, plan)
        return self._role(PS, plan, spec.parameter_server.template, count, count, workers.sizes)

    def _evaluators(self, workers: Role) -> Role | None:
        """They are no part of the minimum, and come in proportion with the workers."""
        spec = self.job.spec
        plan = self.resource.spec.evaluator if self.resource else None
        most = self._count(EVALUATOR, plan)
        template = (spec.evaluator and spec.evaluator.template) or spec.worker.template
        return self._role(EVALUATOR, plan, template, 0 if workers.elastic else most, most, workers.sizes)

    def _count(self, name: str, plan: WorkerResource | RoleResource | None) -> int:
        """A role that the plan does not name is left alone: it keeps the size that it has."""
        if plan is not None:
            return plan.replicas
        return (self.job.status.replica_statuses or {}).get(name, ReplicaCounts()).desired

    def _role(
        self,
        name: str,
        plan: WorkerResource | RoleResource | None,
        template: Mapping[str, Any],
        least: int,
        most: int,
        sizes: tuple[int, int],
    ) -> Role | None:
        if most == 0:
            return None
        resource = plan.resource if plan else None
        return Role(
            name=name,
            min=least,
            max=most,
            sizes=sizes,
            lead=name == WORKER,
            template=self._template(template, resource),
            overrides=dict(self._overrides(name, template, resource)),
        )

    def _overrides(
        self, name: str, template: Mapping[str, Any], resource: PodResource | None
    ) -> Iterator[tuple[int, Data]]:
        """Slots with resources of their own; what an entry does not name is kept."""
        prefix = f"{self.job.metadata.name}-{name}-"
        for update in (self.resource.spec.resource_updation if self.resource else None) or ():
            index = update.name.removeprefix(prefix)
            if update.name.startswith(prefix) and index.isascii() and index.isdecimal():
                yield int(index), self._template(template, _merged(resource, update.resource))

    def _template(self, template: Mapping[str, Any], resource: PodResource | None) -> Data:
        return whole_template(template, container_resources(resource, self.installation.gpu))


def _merged(under: PodResource | None, over: PodResource) -> PodResource:
    if under is None:
        return over
    given = {name: value for name in over.__struct_fields__ if (value := getattr(over, name)) is not None}
    return msgspec.structs.replace(under, **given)
