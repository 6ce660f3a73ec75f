"""What all pods of a role are told alike stands once, in a Secret of the job, and each of them takes it from there.

A variable of a pod is stored with it twice (the API server notes who set what) and travels with every change of the pod
to everybody who watches pods: two dozen of them nearly double what a pod costs a cluster.

The Secret is named after what it says and never changes. A job that is edited gets another one: pods that were made
before still read what they were made with.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from edl.api.roles import JobView
from edl.jobs.environment import CA, TOKEN, Variable


class Shared(msgspec.Struct, frozen=True):
    """The name of the Secret, and what it says."""

    secret: str
    says: Mapping[str, str]


def shared(view: JobView, told: Iterable[Variable], token: str, ca: str) -> Shared:
    """A Secret is taken literally, whereas `$` has a meaning in a pod: what has one in it is left to the pods."""
    alike = {one["name"]: one["value"] for one in told if "$" not in one.get("value", "$")}
    says = {**alike, TOKEN: token, CA: ca}
    digest = hashlib.blake2b(msgspec.json.encode(says, order="sorted"), digest_size=5).hexdigest()
    return Shared(f"{view.name}-{view.tag}-{digest}", says)


def taking(container: Mapping[str, Any], source: Shared) -> dict[str, Any]:
    """The container, told by itself only what the Secret does not say. Of several sources the last one counts."""
    sources = [*(container.get("envFrom") or ()), {"secretRef": {"name": source.secret}}]
    return {**container, "env": unsaid(container["env"], source), "envFrom": sources}


def unsaid(told: Iterable[Variable], source: Shared | None) -> list[Variable]:
    """Without what the Secret says: a pod's own word counts more, so whatever differs from it stays."""
    return [one for one in told if source is None or not _is_said(one, source.says)]


def _is_said(variable: Variable, says: Mapping[str, str]) -> bool:
    name = variable["name"]
    return name in (TOKEN, CA) or (name in says and says[name] == variable.get("value"))
