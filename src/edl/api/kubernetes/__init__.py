"""Kubernetes' own vocabulary, once for everybody: read-only types, names, quantities, times, selectors, pod checks.

Knows no kind of ours.
"""
