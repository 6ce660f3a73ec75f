"""The library behind `edl.trainer`: takes tasks from the master, pulls and pushes parameters.

Runs in the process of a training script. Scripts import `edl.trainer`, never this package.
"""
