"""Credentials for an API server: kubeconfig files, tokens, client certificates, exec plugins.

Obtains and renews them; presenting them with a request is the transport's work.
"""
