"""The resource optimiser: what jobs were like, what they got, how it went, and what a job should get next.

`policy` decides and is pure; around it are a store (SQLite or PostgreSQL) and an HTTP service. docs/brain.md explains.
"""
