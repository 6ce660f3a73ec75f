"""Logs of a pod on their way to the Brain, which keeps them when the pod is gone: `feed` sends, `backlog` holds what
waits. torchrun's agent hands over what its workers write; a process of our own what it prints itself (`own_output`).
Needs the standard library alone.
"""
