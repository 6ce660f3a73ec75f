"""A complete Kubernetes for tests: built from pinned sources, in namespaces of its own, gone without a trace after.

`cluster.py` puts the parts together; `python -m tests.tier_kube.cluster` is its command line. Nothing knows of EDL.
"""
