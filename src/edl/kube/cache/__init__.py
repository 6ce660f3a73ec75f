"""Local copies of objects, kept up to date by list and watch: informer, store, indexes and change handlers.

Reads the API only; deciding what to do about a change belongs to `controllers`.
"""
