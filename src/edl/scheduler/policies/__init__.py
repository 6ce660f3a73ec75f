"""Scheduling policies: the order of serving and of giving. One file and one row of the registry each.

A policy places nothing and explains nothing: that is for `placement`, `steps` and `reasons`.
"""
