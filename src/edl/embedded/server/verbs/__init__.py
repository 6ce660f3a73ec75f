"""The verbs of the API, independent of HTTP: create, read, update, patch, delete and the subresources.

Not here: rules of single kinds (`kinds`), and what depends on other objects (`admission`).
"""
