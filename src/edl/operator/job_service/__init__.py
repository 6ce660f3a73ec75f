"""What the leading operator serves to the pods of its jobs over HTTPS; docs/job-service.md is the protocol."""

from .record import JobRecord, Jobs, Progress, RoleRecord
from .server import JobService
from .store import ConflictError, MemoryStore, Store, Stored, UnavailableError

__all__ = [
    "ConflictError",
    "JobRecord",
    "JobService",
    "Jobs",
    "MemoryStore",
    "Progress",
    "RoleRecord",
    "Store",
    "Stored",
    "UnavailableError",
]
