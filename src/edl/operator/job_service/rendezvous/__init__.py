"""Rendezvous of PyTorch jobs: which agents form a round, and when the next one forms.

`lobby` decides and does no I/O; `session` is the connections to the agents of one job.
"""
