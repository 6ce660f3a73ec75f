"""The scheduler: one pure function from a snapshot of the cluster to a size for every job, each with its reason.

Production, `edl plan` and any simulation call `edl.scheduler.plan.plan`. Nothing here does I/O or reads a clock.

    snapshot/   from Kubernetes objects to plain values; decides nothing
    placement/  pods on nodes: capacity, affinity, gangs, quotas; knows no policy
    steps/      the steps of a cycle, in the order of `plan`
    policies/   the order in which jobs are served, and give; one file and one row of the registry each
    reasons/    codes and sentences that explain a target

A *unit* is a job in the dry run. Its *size* is the number of pods of its leading role (its *instances*); the size at
the end of a cycle is its *target*. A *placement* puts a pod on a node; a *reservation* claims capacity that is still
being freed. A *donor* is a unit that shrinks for another. A *blocker* is what keeps a unit from starting or growing.
A *foreign* pod belongs to no job.
"""
