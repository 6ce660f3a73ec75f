"""Schedulers on the published workloads of Pollux (OSDI'21): the rules of its simulator, written anew.

    tables        the CSV files, read strictly
    application   measured step times and gradient statistics of one application
    job           a job that advances through its epochs, and the batch size that its agent chooses
    simulator     60 s ticks: every job advances, then one decision
    tiresias, optimus  rivals, which must reproduce their published completion times to the second
    shipping      the policies that EDL ships, through `edl.scheduler.plan`
    report        the figures of a run

The traces are not part of this repository: `python -m bench.pollux --help` says what is read.
"""
