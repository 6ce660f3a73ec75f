"""Keys and certificates of an installation: kept in the operator's own Secret, replaced before they expire.

Not here: making certificates (`edl.certificates`), tokens of jobs and their checks (`edl.operator.job_service`).
"""
