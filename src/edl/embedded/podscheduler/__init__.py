"""The embedded cluster's pod scheduler: finds a node for every pod, as kube-scheduler would. An ordinary API client.

It knows nothing of jobs and shares no code with EDL's own planner, whose plans it is there to test.
"""
