"""The environment that pods of every kind are given: EDL's own variables, and how they merge with the user's.

What a single kind adds is in that kind's `environment` module.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from edl.api.job_view import JobView

Variable = dict[str, Any]

TOKEN_KEY, CA_KEY = "token", "ca.crt"
POD_NAME = "EDL_POD_NAME"
URL, TOKEN, CA = "EDL_SERVICE_URL", "EDL_JOB_TOKEN", "EDL_SERVICE_CA"


class ServiceAccess(msgspec.Struct, frozen=True):
    """How pods reach the job service. The token is in a Secret of the job's."""

    url: str = ""


def secret_name(job: str, tag: str) -> str:
    """`tag` is the kind's short name: jobs of two kinds may have one name."""
    return f"{job}-{tag}-token"


def common(view: JobView, role: str, access: ServiceAccess) -> list[Variable]:
    """What every pod of every kind is told."""
    variables = [
        variable("EDL_JOB_NAME", view.name),
        variable("EDL_JOB_NAMESPACE", view.namespace),
        variable("EDL_JOB_UID", view.uid),
        variable("EDL_ROLE", role),
        field_variable(POD_NAME, "metadata.name"),
    ]
    if access.url:
        variables += [
            variable(URL, access.url),
            _secret(TOKEN, view, TOKEN_KEY),
            _secret(CA, view, CA_KEY),
        ]
    return variables


def slot(pod: str, index: int, attempt: int) -> list[Variable]:
    """What one pod of a slot is told. An attempt above 0 joins a job that others have begun."""
    return [variable(POD_NAME, pod), slot_index(index), slot_attempt(attempt)]


def slot_index(index: int) -> Variable:
    return variable("EDL_INDEX", index)


def slot_attempt(attempt: int) -> Variable:
    return variable("EDL_ATTEMPT", attempt)


def merged(own: list[Variable], given: Iterable[Mapping[str, Any]] | None) -> list[Variable]:
    """The user's variables follow ours, so that they may refer to them; ours may not be taken, the rest may be."""
    theirs = [dict(one) for one in given or ()]
    reserved = {one["name"] for one in own if one["name"].startswith("EDL_")}
    names = {one.get("name") for one in theirs}
    kept = [one for one in own if one["name"] in reserved or one["name"] not in names]
    return [*kept, *(one for one in theirs if one.get("name") not in reserved)]


def variable(name: str, value: object) -> Variable:
    return {"name": name, "value": str(value)}


def field_variable(name: str, path: str) -> Variable:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _secret(name: str, view: JobView, key: str) -> Variable:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name(view.name, view.tag), "key": key}}}
