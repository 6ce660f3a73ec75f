"""The environment that all pods of a role share, kept once in a Secret of the job.

A variable of a pod is stored with it twice (the API server notes who set what) and travels with every change of the pod
to everybody who watches pods: two dozen of them nearly double what a pod costs a cluster.

The Secret is named after what it says and never changes. A job that is edited gets another one: pods that were made
before still read what they were made with.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from edl.api.job_view import JobView
from edl.jobs.core.pods.environment import CA, TOKEN, Variable


class Shared(msgspec.Struct, frozen=True):
    """The name of the Secret, and what it says."""

    secret: str
    values: Mapping[str, str]


def shared(view: JobView, variables: Iterable[Variable], token: str, ca: str) -> Shared:
    """A Secret is taken literally, whereas `$` has a meaning in a pod: what has one in it is left to the pods."""
    common = {one["name"]: one["value"] for one in variables if "$" not in one.get("value", "$")}
    values = {**common, TOKEN: token, CA: ca}
    digest = hashlib.blake2b(msgspec.json.encode(values, order="sorted"), digest_size=5).hexdigest()
    return Shared(f"{view.name}-{view.tag}-{digest}", values)


def with_shared(container: Mapping[str, Any], source: Shared) -> dict[str, Any]:
    """The container, told by itself only what the Secret does not say. Of several sources the last one counts."""
    sources = [*(container.get("envFrom") or ()), {"secretRef": {"name": source.secret}}]
    return {**container, "env": own_variables(container["env"], source), "envFrom": sources}


def own_variables(variables: Iterable[Variable], source: Shared | None) -> list[Variable]:
    """Without what the Secret says: a pod's own word counts more, so whatever differs from it stays."""
    return [one for one in variables if source is None or not _is_shared(one, source.values)]


def _is_shared(variable: Variable, values: Mapping[str, str]) -> bool:
    name = variable["name"]
    return name in (TOKEN, CA) or (name in values and values[name] == variable.get("value"))
