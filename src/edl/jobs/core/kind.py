"""One row per kind: everything that the rest of EDL needs to know of it, as data and hooks.

A package `edl.jobs.<kind>` exports its row as `kind.KIND`; `edl.jobs.registry` lists the rows. Nothing outside a kind's
package tells kinds apart.

Commands that only list or print read rows, too: importing one must not import what reconciles.
"""

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import fields, replace

from edl.api.labels import CONTROLLER
from edl.api.status import Scale

if TYPE_CHECKING:
    from edl.api.schema.problem import Problem
    from edl.jobs.core.actions import Change
    from edl.jobs.core.grant import Grant
    from edl.jobs.core.outcome import Outcome
    from edl.jobs.core.request import ReconcileRequest
    from edl.jobs.core.view import ViewFunction


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with `-o wide` only."""


PROGRESS = (Column("Progress", ".status.progress.shown"), Column("ETA", ".status.progress.eta"))
"""How far a job's training has come, for kinds of jobs."""
AGE = Column("Age", ".metadata.creationTimestamp", "date")


class ScalePaths(msgspec.Struct, frozen=True):
    """Where `kubectl scale` and autoscalers read and write the size."""

    spec: str
    status: str
    selector: str = ""


class Access(msgspec.Struct, frozen=True):
    """What the operator may do with objects of the kind, or with one subresource of theirs, and why."""

    verbs: tuple[str, ...]
    why: str
    subresource: str = ""


JOB_ACCESS = (
    Access(("list", "watch", "delete"), "to see jobs, and delete those whose time is over"),
    Access(("patch",), "to say how they stand", "status"),
    Access(("update",), "to own what must go before the job does", "finalizers"),
)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of object that EDL defines."""

    name: str
    group: str
    versions: tuple[str, ...]
    """The first one is stored."""
    plural: str
    singular: str
    """As the CLI shows the kind, too."""
    short_names: tuple[str, ...]
    type: builtins.type[Any]
    status: builtins.type[Any]
    """The type of its status."""
    columns: tuple[Column, ...]
    scale_paths: ScalePaths | None = None
    access: tuple[Access, ...]
    names_pods: bool = False
    """Names of its objects begin those of pods and Services, which leaves them less room."""
    default: Callable[[Any], Any] = lambda value: value
    """The same object with every omitted field that has a default. Idempotent."""
    validate: "Callable[[Any, Any], Iterator[Problem]]" = lambda written, defaulted: iter(())
    """Problems that no type can express, from the object as written and with its defaults."""

    @property
    def spec(self) -> builtins.type[Any]:
        """The type of its spec."""
        found: builtins.type[Any] = next(field.type for field in fields(self.type) if field.name == "spec")
        return found

    @property
    def api_versions(self) -> tuple[str, ...]:
        return tuple(f"{self.group}/{version}" for version in self.versions)

    @property
    def crd_name(self) -> str:
        """Unique: of two kinds called ElasticJob this one."""
        return f"{self.plural}.{self.group}"

    @property
    def tag(self) -> str:
        """Short, for names of objects that jobs of several kinds have."""
        return self.short_names[0]


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """A kind whose objects each name a job and say how large it is to be."""

    kind: Kind
    names_job: Callable[[Any], str]
    """From a spec as it came to the name of the job, empty if it cannot be made out."""
    select: Callable[[Any, Iterable[Any]], Any]
    """From a job and companions of any jobs to the one that it follows, or None."""
    refused: "Callable[[Any, Iterable[Problem], int, float], Any]"
    """From status, problems, generation and time to the status of a companion whose spec is refused."""
    without_job: "Callable[[Any, bool, float], Change | None]"
    """Status of a companion whose job is not there, or is there (the flag) and refused."""
    author_notes: Callable[[Any, bool], Mapping[str, str]]
    """Annotations of one that the operator writes for the job itself; the flag says that it is urgent."""


class JobKind(Kind, frozen=True, kw_only=True):
    """A kind of job: it is scheduled, and reconciled into pods."""

    access: tuple[Access, ...] = JOB_ACCESS
    names_pods: bool = True
    scale_type: builtins.type[Scale] = Scale
    scale_field: str = "scale"
    """The member of its status that holds the scheduling facts."""
    fails_fast: bool = False
    """A script that cannot work ends the job (`edl.jobs.core.pods.fail_fast`)."""
    is_restored: bool = False
    """A backup carries what its jobs keep at the job service: without it they would begin anew."""
    leading_role: str = "worker"
    """The role whose pods train and are counted as the job's size."""
    guarded_roles: tuple[str, ...] = ()
    """Roles of which a drain may evict one pod at a time: a second one would take the first one's copies with it."""
    max_field: str
    """What the user calls the most pods of its leading role, for the reasons that the scheduler gives."""
    view: "ViewFunction"
    """Roles and sizes for the scheduler."""
    reconcile: "Callable[[ReconcileRequest[Any]], Outcome]"
    roles: Callable[[Any], Mapping[str, int]]
    """From a status to the pods that each role should have."""
    address: Callable[[str, str, int], str]
    """From job, role and index to the name by which others find that slot, empty if it says itself where it is."""
    granted: "Callable[[Any, Grant], bool]" = lambda status, grant: True
    """Whether a grant is about what the size of a job with this status counts."""
    keep: "Callable[[Any, Any], tuple[Any, tuple[Problem, ...]]] | None" = None
    """From the spec in force and a valid edit of it, both defaulted, to what is in force then, and what is refused.
    None: only what the types declare as unchanging is."""
    companion: Companion | None = None
    component: str = CONTROLLER
    """The reporting controller of the job's Events."""
    run: Callable[[str, Any], str] = lambda uid, status: ""
    """From uid and status to the rendezvous id of the job's processes, empty if it does not matter."""
    bounds: Callable[[Any], tuple[int, int] | None] = lambda job: None
    """From a job to the sizes between which its processes may meet, None if nobody who meets has to know."""

    def scale_of(self, status: Any) -> Scale | None:
        scale: Scale | None = getattr(status, self.scale_field)
        return scale

    def with_scale(self, status: Any, **facts: Any) -> Any:
        """The status with other scheduling facts."""
        scale = replace(getattr(status, self.scale_field) or self.scale_type(), **facts)
        return replace(status, **{self.scale_field: scale})

    def followed(self, job: Any, companions: Iterable[Any]) -> Any:
        """Of companions of any jobs the one that this job follows, or None."""
        companion = self.companion
        if companion is None:
            return None
        return companion.select(job, (one for one in companions if isinstance(one, companion.kind.type)))
