"""Edits of a TrainingJob that cannot be honoured once it has pods, because those would disagree with new ones.

Such an edit is refused with the reason, and the job goes on as it began; everything else in the spec is honoured, for
new pods where it concerns pods. What the job began with is in its status. Jobs that began before there was such a
memory have a note on their trainers' Job, which tells of roles only whether they were there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from edl.api.schema.problem import Problem
from edl.jobs.core.in_force import keep_unchanging, refused_value
from edl.jobs.training.types import Trainer, TrainingJob, TrainingJobSpec

_FIELDS = {
    "port": "port",
    "ports_num": "ports_num",
    "ports_num_for_sparse": "ports_num_for_sparse",
    "mountPath": "mount_path",
}
PASSES = "passes"  # of the trainer; the task queue takes its number once
_ROLES = ("master", "pserver", "etcd")
_SIZES = ("min_instance", "max_instance", "replicas")


def keep_begun(begun: TrainingJobSpec, spec: TrainingJobSpec) -> tuple[TrainingJobSpec, tuple[Problem, ...]]:
    """The spec as it can be honoured, and what of it cannot be. Both are defaulted."""
    spec, unchanging = keep_unchanging(begun, spec)
    problems = list(unchanging)
    for name, attribute in _FIELDS.items():
        if getattr(begun, attribute) != getattr(spec, attribute):
            problems.append(refused_value((name,), getattr(spec, attribute), getattr(begun, attribute)))
            spec = replace(spec, **{attribute: getattr(begun, attribute)})
    if begun.trainer.passes != spec.trainer.passes:
        problems.append(refused_value(("trainer", PASSES), spec.trainer.passes, begun.trainer.passes))
        spec = replace(spec, trainer=replace(spec.trainer, passes=begun.trainer.passes))
    for role in _ROLES:
        known = getattr(begun, role)
        if (known is None) != (getattr(spec, role) is None):
            problems.append(_refused_role(role, known is not None))
            spec = replace(spec, **{role: known})
    if spec.master is None and _size(begun.trainer) != _size(spec.trainer):
        problems.append(_refused_size(begun.trainer, spec.trainer))
        spec = replace(spec, trainer=replace(spec.trainer, **{name: getattr(begun.trainer, name) for name in _SIZES}))
    return spec, tuple(problems)


def _size(trainer: Trainer) -> int | None:
    """Of a job without a master, which is never scaled."""
    return trainer.replicas if trainer.min_instance != trainer.max_instance else trainer.min_instance


def _refused_size(begun: Trainer, trainer: Trainer) -> Problem:
    field = "replicas" if begun.replicas != trainer.replicas else "min-instance"
    words = (
        f"{_size(trainer)} cannot take effect: without a master each trainer has a fixed share of the data, out of "
        f"{_size(begun)}; delete the job and create it anew, with `master: {{}}` if its size is to change"
    )
    return Problem(("spec", "trainer", field), words)


def _refused_role(role: str, known: bool) -> Problem:
    words = "cannot be removed" if known else "cannot be added"
    return Problem(("spec", role), f"{words} while the job runs; delete the job and create it anew")


# The note on the trainers' Job.


def begun_with(spec: TrainingJobSpec) -> str:
    """What may not change, as it is noted."""
    fields = {name: getattr(spec, attribute) for name, attribute in _FIELDS.items()}
    roles = {role: getattr(spec, role) is not None for role in _ROLES}
    return msgspec.json.encode(fields | {PASSES: spec.trainer.passes} | roles, order="sorted").decode()


def without_refused_edits(job: TrainingJob, note: str | None) -> tuple[TrainingJob, tuple[Problem, ...]]:
    """The job as it can be honoured, and what of its spec cannot be. Without a note nothing has begun."""
    began = _read(note)
    spec, problems = job.spec, []
    for name, attribute in _FIELDS.items():
        if name in began and began[name] != getattr(spec, attribute):
            problems.append(refused_value((name,), getattr(spec, attribute), began[name]))
            spec = replace(spec, **{attribute: began[name]})
    if PASSES in began and began[PASSES] != spec.trainer.passes:
        problems.append(refused_value(("trainer", PASSES), spec.trainer.passes, began[PASSES]))
        spec = replace(spec, trainer=replace(spec.trainer, passes=began[PASSES]))
    for role in _ROLES:
        if role in began and began[role] != (getattr(spec, role) is not None):
            problems.append(_refused_role(role, began[role]))
            spec = replace(spec, **{role: None})  # a role that is not described any more is left as it is
    return (job, ()) if not problems else (replace(job, spec=spec), tuple(problems))


def _read(note: str | None) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(note or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
