"""Reads the authority that an administrator gives to the installation, in a Secret as cert-manager writes it.

`tls.crt` and `tls.key` are a CA's; `ca.crt` may hold those above it. Operators issue certificates under it and never
write the Secret.
"""

import base64
import binascii

from edl.api.kubernetes.core import Secret
from edl.certificates import Authority, Pair
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.operator.credentials.own_secret import find_secret


class AuthorityError(KubeError):
    """The Secret holds no authority; the message says what it wants."""


async def given_authority(client: Client, namespace: str, name: str) -> Pair:
    found = await find_secret(client, namespace, name)
    if found is None:
        raise AuthorityError(f"Secret {namespace}/{name} (--authority-secret) is not there: make it, or have it made")
    try:
        return authority_in(found)
    except (KeyError, ValueError, binascii.Error) as error:
        raise AuthorityError(f"Secret {namespace}/{name} (--authority-secret) holds no authority: {error}") from None


def authority_in(secret: Secret) -> Pair:
    """With every certificate up to the root, because clients trust no chain without its end."""
    data = {key: base64.b64decode(value) for key, value in secret.data.items()}
    for key in ("tls.crt", "tls.key"):
        if key not in data:
            raise ValueError(f"it has no {key}")
    certificate, above = data["tls.crt"].strip() + b"\n", data.get("ca.crt", b"").strip()
    whole = certificate if not above or above in certificate else certificate + above + b"\n"
    pair = Pair(whole, data["tls.key"])
    if not Authority(pair).may_issue:
        raise ValueError("tls.crt is no CA's, or tls.key is another's")
    return pair
