"""Logs of pods at the Brain, as pods post them and as everybody reads them there. They outlive pods and jobs.

A chunk is whole lines, each with the time at which it was written in front, as Kubernetes has it. It is keyed by the
pod and a number that only grows, so it may be posted again.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from edl.protocol.history import Moment, Name

CHUNK_LIMIT = 512 << 10


class LogChunk(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The body of POST /v1/jobs/NAMESPACE/NAME/UID/logs. `leads`: the pod has rank 0, of whose log more is kept."""

    pod: Name
    number: Annotated[int, Meta(ge=0, le=2**62)]
    lines: Annotated[str, Meta(max_length=CHUNK_LIMIT)]
    leads: bool = False


class KeptLogInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The log of one pod, as a list of them has it."""

    pod: Name
    uid: Name
    """The job's."""
    bytes: int
    began: Moment
    updated: Moment
    leads: bool = False


class KeptLogText(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one pod's log."""

    pod: Name
    lines: str
