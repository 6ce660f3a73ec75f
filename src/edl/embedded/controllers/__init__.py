"""Workload controllers of the embedded cluster: ordinary API clients, each of which works against any API server.

Each is level-triggered, names its sources and has one `reconcile`; `run.py` starts them. They do what daily kubectl use
and EDL's stories need of Kubernetes' own controllers. Not here: placing pods (`podscheduler`), running them (`node`),
and anything about EDL's kinds.
"""
