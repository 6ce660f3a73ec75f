"""The master of a job: leases tasks to trainers, keeps progress in the job service, and takes checkpoints.

Runs in the master pod (or inside the EasyDL trainer). It holds no parameters: those are on the parameter servers.
"""
