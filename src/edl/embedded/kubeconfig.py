"""The kubeconfig by which kubectl and every other client find the embedded cluster."""

import base64

import yaml


def kubeconfig(url: str, authority: bytes, token: str, *, name: str = "edl", namespace: str = "default") -> bytes:
    """One cluster, one user, one context, all called `name`; `authority` is the PEM of the certificate authority."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False).encode()
