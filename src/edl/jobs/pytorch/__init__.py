"""PyTorch's ElasticJob: its types, children, status and reconcile.

Not here: what other kinds do alike (`edl.jobs.core`), and the rendezvous of its workers (`edl.operator.job_service`).
"""
