"""Protocols of the objects that EDL defines: the parts that every kind has."""

from typing import Any, Protocol, Self

from edl.api.kubernetes.meta import ObjectMeta
from edl.api.status import JobCondition


class EdlObject(Protocol):
    """An object of one of the registered kinds: a job, or a companion of jobs."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def spec(self) -> Any: ...
    @property
    def status(self) -> Any: ...


class JobStatus(Protocol):
    """The status of a job of any kind."""

    @property
    def phase(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def conditions(self) -> tuple[JobCondition, ...]: ...
    @property
    def in_force(self) -> str: ...
    @property
    def finished(self) -> bool: ...
    def __replace__(self, /, **changes: Any) -> Self: ...
