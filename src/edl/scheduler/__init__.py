"""The scheduler: one pure function from a snapshot of the cluster to a size for every job, each with its reason.

Production, `edl plan` and any simulation call `edl.scheduler.plan.plan`. Nothing here does I/O or reads a clock.
"""
