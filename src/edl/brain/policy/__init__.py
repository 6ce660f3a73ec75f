"""Decides resources: pure functions from the facts of a job to a plan with its reason.

No clock, no I/O. The Brain calls them with the contents of its store, a trainer without a Brain with its own samples.
`startup` makes the first plan, `decide` every later one; `rules` names the rules.
"""
