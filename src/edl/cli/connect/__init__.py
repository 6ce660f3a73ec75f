"""Reaching a cluster, and reading the jobs, pods and progress in it. Prints nothing."""
