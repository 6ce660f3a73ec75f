"""The embedded cluster's pod scheduler: finds a node for every pod, as kube-scheduler would. An ordinary API client.

It knows nothing of jobs. Its placement is its own and shares nothing with EDL's planner, whose plans it is there to
test; both read the same Kubernetes types, selectors and quantities.
"""
