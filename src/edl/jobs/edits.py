"""Edits of a TrainingJob that cannot be honoured once it has pods, because those would disagree with new ones.

What the job began with is noted on its trainers' Job. An edit of it is refused with the reason, and the job goes on as
it began; everything else in the spec is honoured, for new pods where it concerns pods.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from edl.api.problem import Problem
from edl.api.training_job import TrainingJob, TrainingJobSpec

BEGUN_WITH = "edl.dev/begun-with"
_FIELDS = {
    "port": "port",
    "ports_num": "ports_num",
    "ports_num_for_sparse": "ports_num_for_sparse",
    "mountPath": "mount_path",
}
_ROLES = ("master", "pserver", "etcd")


def begun_with(spec: TrainingJobSpec) -> str:
    """What may not change, as it is noted."""
    fields = {name: getattr(spec, attribute) for name, attribute in _FIELDS.items()}
    roles = {role: getattr(spec, role) is not None for role in _ROLES}
    return msgspec.json.encode(fields | roles, order="sorted").decode()


def honoured(job: TrainingJob, note: str | None) -> tuple[TrainingJob, tuple[Problem, ...]]:
    """The job as it can be honoured, and what of its spec cannot be. Without a note nothing has begun."""
    began = _read(note)
    spec, problems = job.spec, []
    for name, attribute in _FIELDS.items():
        if name in began and began[name] != getattr(spec, attribute):
            problems.append(_refused(name, getattr(spec, attribute), began[name]))
            spec = replace(spec, **{attribute: began[name]})
    for role in _ROLES:
        if role in began and began[role] != (getattr(spec, role) is not None):
            words = "cannot be removed" if began[role] else "cannot be added"
            problems.append(Problem(("spec", role), f"{words} while the job runs; delete the job and create it anew"))
            spec = replace(spec, **{role: None})  # a role that is not described any more is left as it is
    return (job, ()) if not problems else (replace(job, spec=spec), tuple(problems))


def _refused(name: str, wanted: object, begun: object) -> Problem:
    words = f"{wanted} cannot take effect: the job's pods were started with {begun}; delete the job and create it anew"
    return Problem(("spec", name), words)


def _read(note: str | None) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(note or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
