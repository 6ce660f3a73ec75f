"""Kubernetes for Python programs that must not lose an event: client, informer, workqueue, lease, recorder, controller.

Knows Kubernetes and nothing of training: it imports nothing else of this project, and works on any type that msgspec
can decode. The contracts and the known weaknesses are in docs/kube.md.
"""
