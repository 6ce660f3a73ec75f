"""Jobs from Python, in a script or a notebook: run, watch, read, change, delete. The command line's own client, made
synchronous; `import edl` offers what is here.
"""

from edl.client.handle import Job, get, list_jobs
from edl.client.launch import run
from edl.client.session import JobError

__all__ = ["Job", "JobError", "get", "list_jobs", "run"]
