"""Conformance suite: the same requests to the embedded API server and to a real kube-apiserver.

A case shows only its requests. The expectation of each is the response recorded from a real kube-apiserver:
`expected/<module>.json`, under the name of the test, in the order of its requests. Where the embedded server differs on
purpose, `expected/differences.json` has its own responses and the reason. `conftest.py` says how to record.
"""
