"""The objects of a PyTorch ElasticJob, as design 004 draws them: for every worker a pod and a headless Service.

A Service leads to the pod that has its slot now: one that is still being stopped is not taken for its successor.
"""

from functools import cached_property

from edl.api.job_view import JobView
from edl.api.kubernetes.core import Service
from edl.api.labels import LABEL_ATTEMPT, LABEL_INDEX, LABEL_UID
from edl.jobs.core.children import Child, Owner
from edl.jobs.core.pods import environment
from edl.jobs.core.pods.carried import with_carried
from edl.jobs.core.pods.environment import Variable
from edl.jobs.core.pods.pod_builder import Data, PodSettings, build_template, headless_service, shared_secret, slot_pod
from edl.jobs.core.pods.pod_set import NewPod
from edl.jobs.core.pods.shared_environment import Shared, shared
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.pods.threads import thread_limits
from edl.jobs.pytorch.environment import WORKER, drawn_environment, meeting, worker_environment
from edl.jobs.pytorch.types import GROUP, ElasticJob


class WorkerChildren:
    """`attempt`: how often the whole job was started anew. `token` opens the job service, if there is one."""

    def __init__(
        self, job: ElasticJob, view: JobView, settings: PodSettings, attempt: int, token: str, ca: str
    ) -> None:
        self._job, self._view, self._settings, self._attempt = job, view, settings, attempt
        self._token, self._ca = token, ca

    def secret(self) -> Child | None:
        return shared_secret(self._view, self._shared) if self._shared is not None else None

    def pod(self, new: NewPod, owner: Owner) -> Data:
        view, metadata = self._view, self._template["metadata"]
        own = {**metadata["labels"], **_named(view, new.index), LABEL_ATTEMPT: str(new.attempt)}
        template = {**self._template, "metadata": {**metadata, "labels": own}}
        variables = [meeting(view, self._attempt)]
        return slot_pod(template, view, WORKER, new, owner, subdomain="", environment=variables, shared=self._shared)

    @cached_property
    def _template(self) -> Data:
        """What all workers have in common."""
        settings, notes = self._settings, self._job.metadata.annotations
        runtime = settings.carries_runtime and bool(settings.access.url)
        return build_template(
            with_carried(self._view.lead.template, notes, image=settings.installation.image, runtime=runtime),
            self._view,
            WORKER,
            [*self._alike, *drawn_environment(self._job, self._view, self._settings.access)],
            self._settings,
            restart_policy="Never",
            more_labels={},
            shared=self._shared,
        )

    @cached_property
    def _shared(self) -> Shared | None:
        """What all workers are told, and those that nobody came before: nearly all of them."""
        if not self._token:
            return None
        first = [environment.slot_attempt(0), meeting(self._view, 0)]
        return shared(self._view, [*self._alike, *first], self._token, self._ca)

    @cached_property
    def _alike(self) -> list[Variable]:
        view, settings = self._view, self._settings
        gpus = (settings.installation.gpu,)
        return [
            *environment.common(view, WORKER, settings.access),
            *worker_environment(self._job, view, settings.access, gpus),
            *thread_limits(view.lead.template, gpus),
        ]

    def service(self, index: int, attempt: int) -> Child:
        view = self._view
        body = headless_service(view, slot_name(view.name, WORKER, index), WORKER, ())
        body["spec"]["selector"] = self.selector(index, attempt)
        body["metadata"]["labels"] = {
            **_named(view, index),
            **body["metadata"]["labels"],
            LABEL_INDEX: str(index),
        }
        return Child(Service.KIND, body)

    def selector(self, index: int, attempt: int) -> dict[str, str]:
        """The first pod of a slot has no predecessor to be told from, so its attempt is not asked for: the cluster
        looks through all pods of the namespace for every Service, label by label in their order, and the attempt comes
        first and is 0 nearly everywhere."""
        told_apart = {LABEL_ATTEMPT: str(attempt)} if attempt else {}
        return {**_named(self._view, index), LABEL_UID: self._view.uid, **told_apart}


def _named(view: JobView, index: int) -> dict[str, str]:
    """The labels of design 004."""
    return {"group-name": GROUP, "job-name": view.name, "replica-type": WORKER, "replica-index": str(index)}
