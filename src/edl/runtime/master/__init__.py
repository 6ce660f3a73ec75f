"""The master of a job: a leased task queue whose progress is in the job service, and the keeper of its checkpoints."""
