"""The trainer of an EasyDL job: plans the job's resources while it trains, and gives the workers their shards.

It is a master (task queue, parameters, checkpoints) that also plans; like a master it keeps nothing that it cannot
lose.
"""
