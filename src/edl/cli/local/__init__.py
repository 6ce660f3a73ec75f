"""The cluster of `edl up`: the embedded Kubernetes with EDL's admission rules, operator and Brain beside it.

The only place that puts them together; `edl.embedded` itself knows nothing of EDL's kinds. Also the background process
around it: starting, stopping, recovery after a kill. Commands and their options stay in `edl.cli.commands`.
"""
