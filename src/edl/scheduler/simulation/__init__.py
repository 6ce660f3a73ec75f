"""A what-if on virtual time: the shipping `plan` over a cluster and jobs that exist only as numbers. Pure.

    trace       jobs and changes of nodes, as values
    world       one moment of it as a snapshot, and a plan applied to it
    engine      from event to event until every job is done
    figures     what a run says: completion times, waiting, use, fairness, changes
    forward     a real cluster, from a snapshot on
    forecast    when jobs that wait will start, by running it forward
    foretold    how well that was foretold, on a trace

Simplified: pods start and go at once, a job has one role, an instance one shape. A job's speed is a power of its size.
"""
