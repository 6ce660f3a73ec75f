"""A job as the operator describes it to the job service."""

import hmac
from collections.abc import Sequence
from typing import Protocol

import msgspec

Name = tuple[str, str, str]
"""Namespace, name and the short name of the kind."""


class RoleRecord(msgspec.Struct, frozen=True):
    """`replicas` is how many the role should have; `addresses` are the stable names of its slots."""

    replicas: int
    addresses: tuple[str, ...] = ()


class JobRecord(msgspec.Struct, frozen=True):
    """`pods` names every pod of the job that exists and is not terminal (None: not known yet); `leaving` those of
    them that were asked to go; `owner` is the ownerReference that what we store for the job carries."""

    uid: str
    token: str
    tag: str = "edl"
    """Short name of its kind: jobs of two kinds may have one name."""
    phase: str = ""
    size: int = 0
    target: int = 0
    nodes: int = 0
    """On how many nodes the pods are that the size counts."""
    roles: dict[str, RoleRecord] = {}
    leaving: tuple[str, ...] = ()
    pods: frozenset[str] | None = None
    failed: frozenset[str] = frozenset()
    """Pods that are still there to be read, and have ended badly or were asked to go."""
    succeeded: frozenset[str] = frozenset()
    """Pods that are still there to be read, and have ended well by themselves."""
    owner: dict[str, str | bool] = {}
    stamp: str = ""
    """Differs when something else about the job does that calls may wait for."""
    bounds: tuple[int, int] | None = None
    """The smallest and largest size that the user allows now; None: what pods were started with holds."""
    fail_fast: bool = False
    """A script that cannot work ends the job."""
    run: str = ""
    """The attempt whose agents may join the rendezvous; empty if the operator does not say."""
    restored_from: str = ""
    """The uid that the job had on the cluster that it was restored from."""
    state_keys: tuple[str, ...] = ()
    """What the state that it was restored with may be sealed with."""
    former_tokens: tuple[str, ...] = ()
    """What pods have that were made before the installation's key was replaced."""

    def is_opened_by(self, token: bytes) -> bool:
        known = (one.encode() for one in (self.token, *self.former_tokens) if one)
        return any(hmac.compare_digest(token, one) for one in known)

    @property
    def most(self) -> int:
        """The largest size that it may have, as far as it is known."""
        return max(self.size, self.target, self.bounds[1] if self.bounds is not None else 0)

    @property
    def pod_count(self) -> int:
        """How many pods the job has or should have, whichever is more."""
        planned = max(self.size, self.target) + sum(role.replicas for role in self.roles.values())
        return max(planned, len(self.pods or ()))


class Jobs(Protocol):
    """The present records of the jobs of a name, one for each kind at most. Called often: answers from memory."""

    def __call__(self, namespace: str, name: str) -> Sequence[JobRecord]: ...
