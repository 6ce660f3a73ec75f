"""The ElasticTrainer of an EasyDL job: has resources planned while it trains, and gives the workers their shards.

It is a master (the task queue, parameters and all) that also plans; like one it keeps nothing but what it can lose.
"""
