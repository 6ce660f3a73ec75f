"""Finds the job that owns a pod: by its controller's uid, directly or through a batch Job, ReplicaSet or StatefulSet.

A job owns nothing in another namespace, whatever a reference says. A label proves nothing: it counts in a file by hand,
where the job has no uid, and where the file leaves out the workload between pod and job, unless the controller is known
to be someone else or an earlier job of the same name. A pod that bears our label and belongs to no job that we see is
a stray: it occupies its node, and no capacity is reclaimed for it.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from edl.api.kubernetes.core import Job, ObjectMeta, OwnerReference, ReplicaSet, StatefulSet
from edl.api.labels import LABEL_JOB

Child = Job | ReplicaSet | StatefulSet
JobKey = tuple[str, str, str, str]
"""Namespace, name, kind and version: the order of jobs in a snapshot."""
Owner = JobKey | Literal["stray"] | None
_JOB_KINDS = ("TrainingJob", "ElasticJob")
_CHILD_KINDS = ("Job", "ReplicaSet", "StatefulSet")


class JobIdentity(msgspec.Struct, frozen=True, gc=False):
    """The identity of a job, by which it owns pods. `lead` is the role that its size counts."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str = ""
    lead: str = ""

    @property
    def key(self) -> JobKey:
        return self.namespace, self.name, self.kind, self.api_version


class JobNames:
    """The jobs that may own something, by uid and by name."""

    def __init__(self, jobs: Iterable[JobIdentity] = ()) -> None:
        self.jobs = {job.key: job for job in jobs}
        self.by_uid = {job.uid: key for key, job in self.jobs.items() if job.uid}
        self.by_name: dict[tuple[str, str], list[JobKey]] = {}
        for key, job in self.jobs.items():
            self.by_name.setdefault((job.namespace, job.name), []).append(key)


class Owners:
    """`complete`: all workloads of ours are among the children, so that one which is not is somebody else's."""

    def __init__(self, names: JobNames, children: Iterable[Child] = (), *, complete: bool = False) -> None:
        self.names = names
        self.jobs, self.by_uid, self._by_name, self.complete = names.jobs, names.by_uid, names.by_name, complete
        self.through: dict[str, tuple[str, JobKey | None]] = {}
        """Namespace and job of workloads, by uid."""
        self.children: dict[JobKey, list[Child]] = {}
        for child in children:
            owning = self.of(child.metadata)
            owner = owning if isinstance(owning, tuple) else self._by_given_name(child)
            if child.metadata.uid:
                self.through[child.metadata.uid] = child.metadata.namespace, owner
            if owner is not None:
                self.children.setdefault(owner, []).append(child)

    def judges_alike(self, other: "Owners", controller: str) -> bool:
        """Whether both say the same of whatever has a controller of this uid. Without one, names decide."""
        if controller in self.by_uid or controller in other.by_uid:
            return self.by_uid.get(controller) == other.by_uid.get(controller)
        if controller in self.through or controller in other.through:
            return self.through.get(controller) == other.through.get(controller)
        return self.names is other.names and self.complete == other.complete

    def of(self, metadata: ObjectMeta) -> Owner:
        """The job that the object belongs to, if any."""
        controller = metadata.controller
        label = metadata.labels.get(LABEL_JOB)
        if controller is not None:
            if controller.uid in self.by_uid:
                return self._beside(metadata, self.by_uid[controller.uid])
            if controller.uid in self.through:
                namespace, owner = self.through[controller.uid]
                if owner is not None and namespace == metadata.namespace:
                    return owner
                return "stray" if label is not None else None
            if controller.kind in _JOB_KINDS:
                return self._by_reference(controller, metadata.namespace, label)
            if label is None or controller.kind not in _CHILD_KINDS:
                return None
        if label is None:
            return None
        proves = controller is not None and not self.complete
        named = self._by_name.get((metadata.namespace, label), ())
        return next((key for key in named if proves or not self.jobs[key].uid), "stray")

    def _beside(self, metadata: ObjectMeta, owner: JobKey) -> Owner:
        if self.jobs[owner].namespace == metadata.namespace:
            return owner
        return "stray" if LABEL_JOB in metadata.labels else None

    def _by_reference(self, controller: OwnerReference, namespace: str, label: str | None) -> Owner:
        """A job as controller whose uid we do not see: the same only if one of the two has no uid (a file by hand)."""
        for key in self._by_name.get((namespace, controller.name), ()):
            job = self.jobs[key]
            same_kind = job.kind == controller.kind and controller.api_version in ("", job.api_version)
            if same_kind and not (job.uid and controller.uid):
                return key
        return "stray" if label is not None else None

    def _by_given_name(self, child: Child) -> JobKey | None:
        """In a file by hand, where nothing has a uid, `<job>-trainer` is the Job of its job."""
        if not isinstance(child, Job) or child.metadata.controller is not None or child.metadata.uid:
            return None
        name = child.metadata.name
        for key in self._by_name.get((child.metadata.namespace, name.rpartition("-")[0]), ()):
            job = self.jobs[key]
            if not job.uid and name == f"{job.name}-{job.lead}":
                return key
        return None
