"""A node whose pods are processes of this machine. An ordinary API client: it works against any Kubernetes API server.

`pod/` runs one pod, `network/` gives pods addresses, names and service connections, `probes/` checks containers,
`supervisor/` is the process that starts and ends theirs. Not here: choosing a node for a pod, and anything about EDL's
kinds.
"""
