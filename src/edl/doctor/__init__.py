"""Diagnoses a cluster or a job: what is wrong, and what to do about it.

Pure functions from what was read to findings; only `reading` talks to the API server, and printing is the CLI's.
"""
