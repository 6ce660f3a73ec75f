"""From a job, what exists of it and the size granted to it, to the objects that should exist and the status to show.

Pure: time and everything seen are arguments, what is to be done comes back as data. `edl.operator` carries it out.
"""
