"""The TLS context with which pods reach the job service. Needs the standard library alone."""

import ssl


def tls_context(ca: str) -> ssl.SSLContext:
    """`ca` is the PEM text that the operator puts in the environment, a file's path, or empty for the system's own."""
    if "-----BEGIN" in ca:
        return ssl.create_default_context(cadata=ca)
    return ssl.create_default_context(cafile=ca or None)
