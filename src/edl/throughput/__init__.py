"""Throughput models: how fast a job would be at a size, from what it has measured. Pure; Brain and scheduler share it.

points      measured throughput by size, with its noise
curve       throughput as a function of workers alone: all that the Brain and most jobs know
step_time   seconds of a step as a function of workers, nodes and batch, where those are reported
efficiency  what a larger batch is worth, from the gradient noise
batch       the batches that a job may use, and the best of them
model       all of it for one job, as plain data: rates by size, how far they are known, remaining work

measurements     what a job has measured of itself, small enough to be kept in its state
measured_model   the model that follows from it
"""
