"""HTTP side of the server: listener, authentication, content types, discovery, OpenAPI, relays to nodes.

Not here: what a request does to objects (`verbs`).
"""
