"""The objects of an installation on a cluster: built for `edl install` and the Helm chart, removed by `edl uninstall`.

Nothing here runs in a cluster; what does is in `operator` and `brain`.
"""
