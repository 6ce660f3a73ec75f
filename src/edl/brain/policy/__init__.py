"""How resources are decided: pure functions from what is known of a job to a plan with its reason.

No clock, no I/O: the Brain calls them with what its store holds, a trainer without a Brain with its own samples.
"""
