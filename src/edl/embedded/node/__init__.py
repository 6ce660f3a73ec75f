"""A node whose pods are processes of this machine. An ordinary API client: it works against any Kubernetes API
server.
"""
