"""The only place where decisions meet I/O: reconcile loops, the scheduling loop, the job service."""
