"""Addresses, names and connections of pods on a node, and the node's own HTTPS endpoint.

Not here: EndpointSlices (a controller makes them) and the framing of exec and port-forward (`edl.embedded.streaming`).
"""
