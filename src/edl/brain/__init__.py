"""The resource optimiser: keeps the history of jobs and plans the resources of running ones.

`policy` decides and is pure; around it are a store (SQLite or PostgreSQL) and an HTTP service. The page
docs/concepts/brain.md explains both.
"""
