"""Protocols of exec, attach and port-forward between kubectl, the API server and a node.

Frames alone: running a command or opening a connection is for the node.
"""
