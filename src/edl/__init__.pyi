from edl.client import Job, JobError, get, list_jobs, run

__version__: str
__all__ = ["Job", "JobError", "__version__", "get", "list_jobs", "run"]
