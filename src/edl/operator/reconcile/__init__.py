"""The reconcile loop of all job kinds: caches, the reconciler, the runner of its actions, and its soft state.

Not here: what a job should have, which its kind decides (`edl.jobs`), and sizes (`scheduling_loop`).
"""
