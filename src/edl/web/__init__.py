"""The page: what a cluster knows of its jobs, shown in a browser, live and only to those who may see it.

A server with a typed JSON API and a stream of changes, and a page of plain ES modules. It reads caches, decides
nothing, and writes only with the viewer's own credential.
"""
