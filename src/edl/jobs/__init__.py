"""The job kinds. Each decides from a job, its observed objects and the size granted to it which objects should exist
and which status to show.

Pure: time and everything observed are arguments, actions come back as data. `edl.operator` runs them.
"""
