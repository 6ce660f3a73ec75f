"""What every operator of an installation shares: the key that job tokens are made with, and the TLS of its services.

It is in one Secret of the operator's namespace, made by whoever comes first. Tokens are derived from the key and the
job's uid, so that no leader has to read another's Secrets to know them. The certificate is renewed long before it ends,
by the same authority, so that those who trust it go on trusting.
"""

import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from edl.api.core import Secret
from edl.certificates import Authority, Pair
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.operator.own_secret import find_secret, write_secret
from edl.operator.resources import SECRETS

LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=120)


class Identity(msgspec.Struct, frozen=True):
    key: bytes
    ca: str
    ca_key: str
    certificate: str
    certificate_key: str
    port: int = 0
    """Where the job service was last found, if any free port would do: running pods look for it there."""

    def token(self, job_uid: str) -> str:
        return hmac.new(self.key, job_uid.encode(), hashlib.sha256).hexdigest()

    @property
    def pair(self) -> Pair:
        return Pair(self.certificate.encode(), self.certificate_key.encode())

    @property
    def authority(self) -> Authority:
        return Authority(Pair(self.ca.encode(), self.ca_key.encode()))

    def tls(self) -> ssl.SSLContext:
        return self.authority.server_context(self.pair, accept_clients=False)

    def serves(self, names: Sequence[str], now: datetime) -> bool:
        """Whether the certificate is good for these names, and for a while."""
        pair = self.pair
        return set(names) <= pair.hosts and pair.ends - now > RENEW_BEFORE


async def load_identity(
    client: Client, namespace: str, name: str, names: Sequence[str], *, now: datetime | None = None
) -> Identity:
    """The installation's identity, made or renewed if need be. `names` are those that its services are called by."""
    for _ in range(5):  # two operators may start at the same time: whoever loses reads what the other wrote
        found = await find_secret(client, namespace, name)
        identity = _read(found)
        if identity is not None and identity.serves(names, now or datetime.now(UTC)):
            return identity
        wanted = _renewed(identity, names) if identity is not None else _new(names)
        try:
            await _write(client, namespace, name, wanted, found)
        except ApiError as error:
            if not (error.is_conflict or error.is_already_exists):
                raise
        else:
            return wanted
    raise RuntimeError(f"Secret {namespace}/{name} is being changed by somebody else all the time")


async def _write(client: Client, namespace: str, name: str, identity: Identity, found: Secret | None) -> None:
    data = {
        "key": identity.key,
        "ca.crt": identity.ca.encode(),
        "ca.key": identity.ca_key.encode(),
        "tls.crt": identity.certificate.encode(),
        "tls.key": identity.certificate_key.encode(),
    }
    if identity.port:
        data["port"] = str(identity.port).encode()
    await write_secret(client, namespace, name, data, found)


async def remember_port(client: Client, namespace: str, name: str, port: int) -> None:
    found = await client.get(SECRETS, name, namespace=namespace, type=Secret)
    identity = _read(found)
    if identity is not None:
        await _write(client, namespace, name, msgspec.structs.replace(identity, port=port), found)


def _read(found: Secret | None) -> Identity | None:
    """None if there is none, or if what is there cannot be used: then it is made anew."""
    try:
        data = {name: base64.b64decode(value) for name, value in (found.data if found is not None else {}).items()}
        identity = Identity(
            data["key"],
            data["ca.crt"].decode(),
            data["ca.key"].decode(),
            data["tls.crt"].decode(),
            data["tls.key"].decode(),
            int(data.get("port", b"0")),
        )
        identity.tls()
    except (KeyError, ValueError, ssl.SSLError):
        return None
    return identity


def _new(names: Sequence[str]) -> Identity:
    authority = Authority.create("edl job service CA").pair
    bare = Identity(secrets.token_bytes(32), authority.certificate.decode(), authority.key.decode(), "", "")
    return _renewed(bare, names)


def _renewed(identity: Identity, names: Sequence[str]) -> Identity:
    """Another certificate of the same authority, for what the last one was good for too: operators that are called by
    different names do not take each other's away."""
    before = identity.pair.hosts - set(names) if identity.certificate else set()
    pair = identity.authority.issue("edl job service", hosts=[*names, *sorted(before)], lifetime=LIFETIME)
    return msgspec.structs.replace(identity, certificate=pair.certificate.decode(), certificate_key=pair.key.decode())
