"""PaddlePaddle's TrainingJob: its types, roles, children, status and reconcile.

Not here: what other kinds do alike (`edl.jobs.core`), and anything that runs in its pods (`edl.runtime`).
"""
