"""Prometheus metrics of the operator, and the server that shows them to those who may see them."""
