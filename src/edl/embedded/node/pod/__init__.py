"""One pod on a process node: from its spec to processes, and back to its status.

`lifecycle` decides and `worker` acts; `inputs` to `launch` prepare a container; `status` and `status_writer` report.
Not here: the processes themselves (`supervisor`, reached through `runtime`).
"""
