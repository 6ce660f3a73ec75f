"""`edl demo`: a cluster, two training jobs, an online service and a few killed processes, in about a minute.

Nothing else uses this package; it uses the CLI's local cluster and its screens.
"""
