"""The workload controllers of the embedded cluster: ordinary API clients, each of which works against any API server.

Level-triggered and small: what EDL's stories and daily kubectl use need of Kubernetes' own, in its words. Every one is
a class that names its sources and has one `reconcile`; `run.py` starts them.
"""
