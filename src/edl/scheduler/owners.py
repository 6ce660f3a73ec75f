"""Whose a pod is. Its controller decides, by uid, directly or through a batch Job, ReplicaSet or StatefulSet of the
job.

Where the chain is not in the snapshot, the label `edl.dev/job` says it, unless the controller is known to be
someone else or an earlier job of the same name. A pod that bears our label and belongs to no job that we see is a
stray: it occupies its node, and nobody makes room for it.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from edl.api.annotations import LABEL_JOB
from edl.api.core import Job, ObjectMeta, OwnerReference, ReplicaSet, StatefulSet

Child = Job | ReplicaSet | StatefulSet
_JOB_KINDS = ("TrainingJob", "ElasticJob")
_CHILD_KINDS = ("Job", "ReplicaSet", "StatefulSet")


class Known(msgspec.Struct, frozen=True):
    """A job, as far as owning goes. `lead` is the role that its size counts."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str = ""
    lead: str = ""


class Owners:
    def __init__(self, jobs: Sequence[Known], children: Iterable[Child]) -> None:
        self.jobs = jobs
        self.by_uid = {job.uid: place for place, job in enumerate(jobs) if job.uid}
        self.by_name: dict[tuple[str, str], list[int]] = {}
        for place, job in enumerate(jobs):
            self.by_name.setdefault((job.namespace, job.name), []).append(place)
        self.through: dict[str, int | None] = {}
        self.children: dict[int, list[Child]] = {}
        for child in children:
            whose = self.of(child.metadata)
            owner = whose if isinstance(whose, int) else self._by_given_name(child)
            if child.metadata.uid:
                self.through[child.metadata.uid] = owner
            if owner is not None:
                self.children.setdefault(owner, []).append(child)

    def of(self, metadata: ObjectMeta) -> int | Literal["stray"] | None:
        """The place of the job that the object belongs to, if any."""
        controller = metadata.controller
        label = metadata.labels.get(LABEL_JOB)
        if controller is not None:
            if controller.uid in self.by_uid:
                return self.by_uid[controller.uid]
            if controller.uid in self.through:
                owner = self.through[controller.uid]
                return owner if owner is not None or label is None else "stray"
            if controller.kind in _JOB_KINDS:
                return self._by_reference(controller, metadata.namespace, label)
            if label is None or controller.kind not in _CHILD_KINDS:
                return None
        if label is None:
            return None
        named = self.by_name.get((metadata.namespace, label))
        return named[0] if named else "stray"

    def _by_reference(
        self, controller: OwnerReference, namespace: str, label: str | None
    ) -> int | Literal["stray"] | None:
        """A job as controller whose uid we do not see: the same only if one of the two has no uid (a file by hand)."""
        for place in self.by_name.get((namespace, controller.name), ()):
            job = self.jobs[place]
            same_kind = job.kind == controller.kind and controller.api_version in ("", job.api_version)
            if same_kind and not (job.uid and controller.uid):
                return place
        return "stray" if label is not None else None

    def _by_given_name(self, child: Child) -> int | None:
        """In a file by hand, where nothing has a uid, `<job>-trainer` is the Job of its job."""
        if not isinstance(child, Job) or child.metadata.controller is not None or child.metadata.uid:
            return None
        name = child.metadata.name
        for place in self.by_name.get((child.metadata.namespace, name.rpartition("-")[0]), ()):
            job = self.jobs[place]
            if not job.uid and name == f"{job.name}-{job.lead}":
                return place
        return None
