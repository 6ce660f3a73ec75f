"""Probes and lifecycle hooks of containers. What follows from a result is the pod worker's decision."""
