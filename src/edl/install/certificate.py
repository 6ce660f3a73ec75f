"""The Certificate by which cert-manager makes the installation's authority, and renews it.

Operators issue their own certificates under it (`--authority-secret`), so nothing else of EDL knows cert-manager.
"""

from typing import Any

from edl.install.options import LABELS, NAME, InstallOptions

YEAR = 8760  # hours


def certificate(options: InstallOptions) -> dict[str, Any]:
    """Ten years, as the authority that operators make; renewed two years before its end."""
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": NAME, "namespace": options.namespace, "labels": LABELS},
        "spec": {
            "isCA": True,
            "commonName": "edl job service CA",
            "secretName": options.authority_secret,
            "duration": f"{10 * YEAR}h",
            "renewBefore": f"{2 * YEAR}h",
            "privateKey": {"algorithm": "ECDSA", "size": 256},
            "issuerRef": {"name": options.cert_manager_issuer, "kind": options.cert_manager_issuer_kind},
        },
    }
