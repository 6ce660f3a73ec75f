"""A Kubernetes client and controller runtime: REST client, informer, workqueue, leader election, recorder, controller.

`rest` calls the API, `auth` finds credentials for it, `cache` keeps local copies of objects, `controllers` reconciles.
Knows Kubernetes and nothing of training: it imports nothing else of this project, and works on any type that msgspec
can decode. The contracts and the known weaknesses are in docs/concepts/kubernetes-client.md.
"""
