"""The operator: reconcile loops, the scheduling loop, the job service and the webhook, around one set of caches.

The only package in which decisions meet I/O. The decisions themselves are made by pure code (`jobs`, `scheduler`);
here they are carried out.
"""
