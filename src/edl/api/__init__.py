"""The kinds that users write and the parts of Kubernetes' own that decisions read: pure types and pure functions.

Nothing here reads a file, a clock or the network.
"""
