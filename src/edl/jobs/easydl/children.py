"""The objects of an EasyDL job: its Secret, and for every slot a Service and the pod that fills it.

A slot's Service leads to one pod, named by its attempt. When another pod takes the slot over, that is one write.
"""

from collections.abc import Mapping
from typing import Any

from edl.api.annotations import RUNTIME
from edl.api.job_view import JobView, Role
from edl.api.kubernetes.core import Service
from edl.api.labels import LABEL_ATTEMPT, LABEL_INDEX, RESOURCES
from edl.jobs.core.children import Child, Owner
from edl.jobs.core.pods import environment
from edl.jobs.core.pods.carried import with_carried
from edl.jobs.core.pods.pod_builder import (
    Data,
    PodSettings,
    build_template,
    headless_service,
    selector,
    slot_pod,
    token_secret,
)
from edl.jobs.core.pods.pod_set import NewPod
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.pods.threads import thread_limits
from edl.jobs.easydl.environment import PORTS, role_environment
from edl.jobs.easydl.followed_plan import TRAINER, WORKER
from edl.jobs.easydl.resources import Asked, asked, resources_text
from edl.jobs.easydl.types import PARAMETER_SERVER, ElasticJob, FollowedPlan


class EasydlChildren:
    """One job's wanted objects. `plan` is what it follows."""

    def __init__(self, job: ElasticJob, view: JobView, plan: FollowedPlan, settings: PodSettings) -> None:
        self._job, self._view, self._plan, self._settings = job, view, plan, settings

    def asked(self, role: str, index: int) -> Asked:
        return asked(self._plan, self._view.name, role, index, self._settings.installation.gpu)

    def slot(self, role: str, index: int) -> str:
        return slot_name(self._view.name, role, index, alone=role == TRAINER)

    def secret(self, token: str, ca: str) -> Child:
        return token_secret(self._view, token, ca)

    def service(self, role: str, index: int, attempt: int) -> Child:
        name, port = self.slot(role, index), PORTS[role]
        body = headless_service(self._view, name, role, [{"name": role, "port": port}])
        body["spec"]["selector"] = self.selector(role, index, attempt)
        body["metadata"]["labels"] = {**body["metadata"]["labels"], LABEL_INDEX: str(index)}
        return Child(Service.KIND, body)

    def pod(self, role: Role, new: NewPod, owner: Owner) -> Data:
        view, settings = self._view, self._settings
        template = build_template(
            self._brought(role, new.index),
            view,
            role.name,
            environment.common(view, role.name, settings.access),
            settings,
            restart_policy="Never",
            more_labels={LABEL_ATTEMPT: str(new.attempt)},
        )
        if role.name != TRAINER:
            notes = {
                **template["metadata"].get("annotations", {}),
                RESOURCES: resources_text(self.asked(role.name, new.index)),
            }
            template["metadata"]["annotations"] = notes
        template["spec"]["hostname"] = self.slot(role.name, new.index)
        self._open_port(template["spec"], role.name)
        gpus = (settings.installation.gpu,)
        shared = bool(settings.data_root)  # which is where pods are processes of one machine
        variables = role_environment(self._job, view, role.name, new.index, settings.access, gpus, shared_host=shared)
        trainer = self._job.spec.trainer
        if role.name != TRAINER or (trainer is not None and trainer.template):  # else EDL's own program runs in it
            variables += thread_limits(role.template_at(new.index), gpus)
        return slot_pod(template, view, role.name, new, owner, subdomain="", environment=variables)

    def _brought(self, role: Role, index: int) -> Mapping[str, Any]:
        """Workers under torchrun meet by our rendezvous, which their image need not have."""
        settings, template = self._settings, role.template_at(index)
        if role.name != WORKER or self._job.spec.distribution_strategy == PARAMETER_SERVER:
            return template
        given = self._job.metadata.annotations
        notes = {RUNTIME: given[RUNTIME]} if RUNTIME in given else {}
        runtime = settings.carries_runtime and bool(settings.access.url)
        return with_carried(template, notes, image=settings.installation.image, runtime=runtime)

    @staticmethod
    def _open_port(spec: Data, role: str) -> None:
        first = spec["containers"][0]
        first.setdefault("ports", [{"name": role, "containerPort": PORTS[role]}])

    def selector(self, role: str, index: int, attempt: int) -> Mapping[str, str]:
        return {**selector(self._view, role), LABEL_INDEX: str(index), LABEL_ATTEMPT: str(attempt)}
