"""Accounting inside the operator: feeds the ledger from what reconciles and plans know, keeps it, posts the history.

Nothing here decides about jobs, and nothing waits for it.
"""
