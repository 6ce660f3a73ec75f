"""A Kubernetes cluster in one process: API server on SQLite, workload controllers, pod scheduler, process nodes.

Belongs here: what any Kubernetes has. Not here: EDL's kinds, operator and Brain. Whoever wants them beside the cluster
hands them over as admission rules and services (`cluster.py`), as `edl.cli.local` does. Only `edl.cli` and
`edl.demo` may import this package. Controllers, pod scheduler and nodes are ordinary API clients and do not import the
server.
"""
