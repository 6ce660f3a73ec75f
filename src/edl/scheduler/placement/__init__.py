"""Placement of pods on nodes: free capacity, node and pod affinity, gangs, quotas. Knows no policy."""
