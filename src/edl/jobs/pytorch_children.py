"""The objects of a PyTorch ElasticJob, as design 004 draws them: for every worker a pod and a headless Service.

A Service leads to the pod that has its slot now: one that is still being stopped is not taken for its successor.
"""

from edl.api.annotations import LABEL_ATTEMPT, LABEL_INDEX
from edl.api.core import Service
from edl.api.pytorch_job import GROUP, ElasticJob
from edl.api.roles import JobView
from edl.jobs import environment
from edl.jobs.children import LABEL_UID, Child, Owner, change
from edl.jobs.environment import secret_name
from edl.jobs.intents import Change, replace
from edl.jobs.pods import Data, PodSettings, finished, headless_service, labels, slot_pod
from edl.jobs.podset import NewPod
from edl.jobs.pytorch_environment import WORKER, worker_environment
from edl.jobs.slots import slot_name


class WorkerChildren:
    """`attempt`: how often the whole job was started anew."""

    def __init__(self, job: ElasticJob, view: JobView, settings: PodSettings, attempt: int) -> None:
        self._job, self._view, self._settings, self._attempt = job, view, settings, attempt

    def secret(self, token: str, ca: str) -> Child:
        """Made before any pod that needs it; never read back, so it is not compared either."""
        view = self._view
        metadata = {
            "name": secret_name(view.name, view.tag),
            "namespace": view.namespace,
            "labels": labels(view, "secret"),
        }
        data = {environment.TOKEN_KEY: token, environment.CA_KEY: ca}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": data}
        return Child("Secret", body)

    def pod(self, new: NewPod, owner: Owner) -> Data:
        view, settings = self._view, self._settings
        gpus = (settings.installation.gpu,)
        told = [
            *environment.common(view, WORKER, settings.access),
            *worker_environment(self._job, view, self._attempt, settings.access, gpus),
        ]
        more = {**_named(view, new.index), LABEL_ATTEMPT: str(new.attempt)}
        template = finished(view.lead.template, view, WORKER, told, settings, restart_policy="Never", more_labels=more)
        return slot_pod(template, view, WORKER, new, owner, subdomain="", environment=())

    def service(self, index: int, attempt: int) -> Child:
        view = self._view
        body = headless_service(view, slot_name(view.name, WORKER, index), WORKER, ())
        body["spec"]["selector"] = self._selector(index, attempt)
        body["metadata"]["labels"] = {
            **_named(view, index),
            **body["metadata"]["labels"],
            LABEL_INDEX: str(index),
        }
        return Child(Service.KIND, body)

    def led(self, seen: Service, index: int, attempt: int) -> Change | None:
        """The Service, led to the pod that has the slot now."""
        wanted = self._selector(index, attempt)
        if dict(seen.spec.selector) == wanted:
            return None
        return change(Service.KIND, seen, [replace("/spec/selector", wanted)])

    def _selector(self, index: int, attempt: int) -> dict[str, str]:
        """The first pod of a slot has no predecessor to be told from, so its attempt is not asked for: the cluster
        looks through all pods of the namespace for every Service, label by label in their order, and the attempt comes
        first and is 0 nearly everywhere."""
        told_apart = {LABEL_ATTEMPT: str(attempt)} if attempt else {}
        return {**_named(self._view, index), LABEL_UID: self._view.uid, **told_apart}


def _named(view: JobView, index: int) -> dict[str, str]:
    """The labels of design 004."""
    return {"group-name": GROUP, "job-name": view.name, "replica-type": WORKER, "replica-index": str(index)}
