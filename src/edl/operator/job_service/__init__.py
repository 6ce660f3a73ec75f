"""The job service: HTTPS calls that the leading operator serves to the pods of its jobs.

docs/reference/job-service.md is the protocol. It is no data path: no gradient, parameter or sample passes through it.
"""

from edl.operator.job_service.record import JobRecord, Jobs, RoleRecord
from edl.operator.job_service.server import JobService
from edl.operator.job_service.store import ConflictError, MemoryStore, Store, Stored, UnavailableError

__all__ = [
    "ConflictError",
    "JobRecord",
    "JobService",
    "Jobs",
    "MemoryStore",
    "RoleRecord",
    "Store",
    "Stored",
    "UnavailableError",
]
