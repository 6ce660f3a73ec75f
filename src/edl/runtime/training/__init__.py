"""The trainer's side of a job: tasks from the master, parameters from their servers. Public face: `edl.trainer`."""
