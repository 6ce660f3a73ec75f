"""The ledger: every second of every instance of a job, and of all capacity of the cluster, booked once. Pure.

Time and observations are arguments. The operator feeds it, the Brain's store keeps it, the report reads it.
"""
