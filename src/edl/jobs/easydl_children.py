"""The objects of an EasyDL job: its Secret, and for every slot a Service and the pod that fills it.

A slot's Service leads to one pod, named by its attempt. When another pod takes the slot over, that is one write.
"""

from collections.abc import Mapping

from edl.api.core import Service
from edl.api.easydl_job import ElasticJob, FollowedPlan
from edl.api.easydl_plan import TRAINER
from edl.api.roles import JobView, Role
from edl.jobs import environment
from edl.jobs.children import Child, Owner, change
from edl.jobs.easydl_environment import PORTS, role_environment
from edl.jobs.easydl_resources import NOTE, Asked, asked, words
from edl.jobs.intents import Change, replace
from edl.jobs.pods import Data, PodSettings, finished, headless_service, selector, slot_pod, token_secret
from edl.jobs.podset import NewPod
from edl.jobs.slots import INDEX, slot_name

ATTEMPT = "edl.dev/attempt"


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
        body["spec"]["selector"] = self._selector(role, index, attempt)
        body["metadata"]["labels"] = {**body["metadata"]["labels"], INDEX: str(index)}
        return Child(Service.KIND, body)

    def lead_to(self, seen: Service, role: str, index: int, attempt: int) -> Change | None:
        """The Service, led to the pod that has the slot now."""
        wanted = self._selector(role, index, attempt)
        if dict(seen.spec.selector) == wanted:
            return None
        return change(Service.KIND, seen, [replace("/spec/selector", wanted)])

    def pod(self, role: Role, new: NewPod, owner: Owner) -> Data:
        view, settings = self._view, self._settings
        template = finished(
            role.template_at(new.index),
            view,
            role.name,
            environment.common(view, role.name, settings.access),
            settings,
            restart_policy="Never",
            more_labels={ATTEMPT: str(new.attempt)},
        )
        if role.name != TRAINER:
            notes = {**template["metadata"].get("annotations", {}), NOTE: words(self.asked(role.name, new.index))}
            template["metadata"]["annotations"] = notes
        template["spec"]["hostname"] = self.slot(role.name, new.index)
        self._open_port(template["spec"], role.name)
        gpus = (settings.installation.gpu,)
        told = role_environment(self._job, view, role.name, new.index, settings.access, gpus)
        return slot_pod(template, view, role.name, new, owner, subdomain="", environment=told)

    @staticmethod
    def _open_port(spec: Data, role: str) -> None:
        first = spec["containers"][0]
        first.setdefault("ports", [{"name": role, "containerPort": PORTS[role]}])

    def _selector(self, role: str, index: int, attempt: int) -> Mapping[str, str]:
        return {**selector(self._view, role), INDEX: str(index), ATTEMPT: str(attempt)}
