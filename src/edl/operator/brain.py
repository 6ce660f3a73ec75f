"""The Secret of the Brain that was installed with the operators: its token key and its certificate.

The key is derived from the installation's, so that every operator can make tokens without reading the Secret; the
certificate is issued by the authority that pods of jobs trust already. The Brain itself has no permission in the
cluster: both are mounted into its pod, where a renewed certificate replaces the old one.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import ssl
from datetime import UTC, datetime

from edl.api.kubernetes.core import Secret
from edl.brain.tokens import METRICS, READER, mint
from edl.certificates import Pair
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.operator.credentials.identity import LIFETIME, RENEW_BEFORE, Identity
from edl.operator.credentials.own_secret import find_secret, write_secret
from edl.operator.settings import BRAIN, BRAIN_PORT, METRICS_TOKEN, READER_TOKEN, BrainSettings

log = logging.getLogger(__name__)

EVERY, AGAIN = 3600.0, 15.0
_TOKENS = {METRICS_TOKEN: METRICS, READER_TOKEN: READER}


def own_brain(identity: Identity, namespace: str) -> BrainSettings:
    key = hmac.new(identity.key, b"brain", hashlib.sha256).hexdigest()
    return BrainSettings(f"https://{BRAIN}.{namespace}.svc:{BRAIN_PORT}", key.encode(), identity.trusted, logs=True)


async def maintain_brain_secret(client: Client, identity: Identity, namespace: str) -> None:
    """For ever. Jobs do not need a Brain, so a failure is logged and tried again."""
    while True:
        try:
            await ensure_brain_secret(client, identity, namespace)
            pause = EVERY
        except KubeError as error:
            log.warning("the Brain's Secret could not be looked after: %s", error)
            pause = AGAIN
        await asyncio.sleep(pause)


async def ensure_brain_secret(
    client: Client, identity: Identity, namespace: str, *, now: datetime | None = None
) -> bool:
    """Writes the Secret if it is absent, of another installation, or due for renewal. Returns whether it did."""
    found = await find_secret(client, namespace, BRAIN)
    if found is not None and _serves(found, identity, namespace, now or datetime.now(UTC)):
        return False
    try:
        await write_secret(client, namespace, BRAIN, _made(identity, namespace), found)
    except ApiError as error:
        if not (error.is_conflict or error.is_already_exists):
            raise
        return False  # another operator was faster, and writes the same
    return True


def _names(namespace: str) -> list[str]:
    return [f"{BRAIN}.{namespace}.svc", f"{BRAIN}.{namespace}", BRAIN, "localhost", "127.0.0.1"]


def _made(identity: Identity, namespace: str) -> dict[str, bytes]:
    pair = identity.authority.issue("edl brain", hosts=_names(namespace), lifetime=LIFETIME)
    key = own_brain(identity, namespace).key
    return {
        "key": key,
        "ca.crt": identity.trusted.encode(),
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        **{name: mint(key, subject).encode() for name, subject in _TOKENS.items()},
    }


def _serves(found: Secret, identity: Identity, namespace: str, now: datetime) -> bool:
    try:
        data = {name: base64.b64decode(value) for name, value in found.data.items()}
        pair = Pair(data["tls.crt"], data["tls.key"])
        pair.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        ours = (data["key"], data["ca.crt"]) == (own_brain(identity, namespace).key, identity.trusted.encode())
        ours = ours and all(data[name] == mint(data["key"], whose).encode() for name, whose in _TOKENS.items())
        authority = identity.authority
        lasts = pair.ends - now > RENEW_BEFORE or pair.ends >= authority.ends
        return ours and set(_names(namespace)) <= pair.hosts and lasts and authority.issued(pair)
    except (KeyError, ValueError, ssl.SSLError):
        return False
