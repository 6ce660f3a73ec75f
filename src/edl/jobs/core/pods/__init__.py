"""The pods of a job, whatever its kind: slots, their history and replacement, templates and environment.

Which pods a kind wants is decided in its own package; here is how a set of them is kept.
"""
