"""What running jobs measure of their own throughput: sampled from reports, kept in their states, read by plans.

sampling   reports of one job become measurements
keeping    measurements are written into the jobs' states, rarely, and read there by a new leader

Plans turn them into models (`edl.scheduler.snapshot.models`).
"""
