"""From Kubernetes objects to the snapshot that a plan is made from. Reads, and decides nothing."""
