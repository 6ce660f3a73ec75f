"""TLS context of a node's endpoint: its certificate, and the authority whose clients it serves."""

import ssl

from edl.certificates import Authority


def endpoint_tls(issuer: Authority, trusted: str, address: str) -> ssl.SSLContext:
    """For a node's endpoint: only who has a certificate of the cluster's authority is served."""
    pair = issuer.issue("edl-node", hosts=[address])
    context = issuer.server_context(pair, accept_clients=False)
    context.load_verify_locations(cadata=trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
