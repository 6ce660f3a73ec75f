"""EasyDL's ElasticJob and its JobResource: types, roles, children, status and reconcile.

Not here: what other kinds do alike (`edl.jobs.core`), and how plans are made (`edl.runtime.easydl_trainer`, Brain).
"""
