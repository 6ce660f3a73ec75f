"""The identity that all operators of an installation share: the key of job tokens, and the TLS of its services.

It is kept in one Secret of the operator's namespace, created by the first operator. Tokens are derived from the key and
the job's uid, so that no leader has to read another's Secrets to know them. The certificate is renewed long before it
ends, by the same authority, so that clients go on trusting it.

When key or authority are replaced, the former ones stay beside them as `previous`: pods that run know nothing else, and
cannot be told. Until the last of them is gone the former authority issues the certificate, new pods trust both, and
tokens of both keys are good.
"""

import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from edl.api.kubernetes.core import Secret
from edl.certificates import Authority, Pair
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.operator.credentials.given_authority import given_authority
from edl.operator.credentials.own_secret import find_secret, write_secret
from edl.operator.resources import SECRETS
from edl.operator.settings import TRUSTED

LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=120)
ROTATE = "edl.dev/rotate"  # an annotation of the Secret, with any value: the authority is to be replaced
_COMMON_NAME = "edl job service CA"
OVERLAP = 600.0  # seconds within which every operator has noticed a replacement, with time to spare


class Previous(msgspec.Struct, frozen=True):
    """Keys and authority before the present ones. The authority is the one that every pod trusts which runs: if it was
    being replaced itself, the one before it."""

    keys: tuple[bytes, ...]
    """Newest first."""
    replaced: tuple[float, ...]
    """When each of the keys was."""
    ca: str
    ca_key: str

    @property
    def since(self) -> float:
        return self.replaced[0]


class Identity(msgspec.Struct, frozen=True):
    key: bytes
    ca: str
    ca_key: str
    certificate: str
    certificate_key: str
    port: int = 0
    """Where the job service was last found, if any free port would do: running pods look for it there."""
    previous: Previous | None = None

    def token(self, job_uid: str, created: float | None = None) -> str:
        """Of a job that was created at this time. It keeps the token it began with for as long as it lives: its pods
        show it to each other, and those that run cannot be told of another one."""
        return _token(self._key_at(created), job_uid)

    def state_keys(self, job_uid: str) -> tuple[str, ...]:
        """What `edl backup` seals a job's state with, by the present key and those before it. No pod knows them."""
        keys = (self.key, *(self.previous.keys if self.previous is not None else ()))
        return tuple(_token(key, f"/state/{job_uid}") for key in dict.fromkeys(keys))

    @property
    def metrics_token(self) -> str:
        """What opens metrics to who may read the installation's Secret, such as `edl doctor --bundle`."""
        return _token(self.key, "/metrics")

    def _key_at(self, created: float | None) -> bytes:
        if self.previous is None or created is None:
            return self.key
        oldest_first = zip(reversed(self.previous.keys), reversed(self.previous.replaced), strict=True)
        return next((key for key, replaced in oldest_first if created < replaced), self.key)

    def former_tokens(self, job_uid: str, created: float | None = None) -> tuple[str, ...]:
        """What pods of the job may have besides, by the present key and those before it; none if it never changed.
        A key that was replaced long before the job was created opens nothing of it: it may have been stolen."""
        previous = self.previous or Previous((), (), "", "")
        known = zip(previous.keys, previous.replaced, strict=True)
        keys = [key for key, replaced in known if created is None or created < replaced + OVERLAP]
        others = tuple(key for key in keys if key != self.key)
        return tuple(_token(key, job_uid) for key in (self.key, *others)) if others else ()

    @property
    def trusted(self) -> str:
        """The authorities that clients trust: the present one, and the one that it replaces."""
        former = self.previous.ca if self.previous is not None and self.previous.ca != self.ca else ""
        return self.ca + former

    @property
    def pair(self) -> Pair:
        return Pair(self.certificate.encode(), self.certificate_key.encode())

    @property
    def authority(self) -> Authority:
        """Who issues certificates: whom all clients trust."""
        source = self.previous or self
        return Authority(Pair(source.ca.encode(), source.ca_key.encode()))

    def tls(self) -> ssl.SSLContext:
        return self.authority.server_context(self.pair, accept_clients=False)

    def serves(self, names: Sequence[str], now: datetime) -> bool:
        """Whether the certificate is good for these names, and for a while, and is one that clients trust."""
        pair, authority = self.pair, self.authority
        lasts = pair.ends - now > RENEW_BEFORE or pair.ends >= authority.ends
        return set(names) <= pair.hosts and lasts and authority.issued(pair)


async def load_identity(
    client: Client,
    namespace: str,
    name: str,
    names: Sequence[str],
    *,
    now: datetime | None = None,
    known: Identity | None = None,
    authority_secret: str = "",
) -> Identity:
    """The installation's identity, made or renewed if need be. `names` are those that its services are called by.

    `authority_secret` names the Secret with an authority of the administrator's, which takes the place of our own.

    `known` is what the caller has been using. If the Secret is gone it is written again; if another took its place, it
    becomes the one before.
    """
    now = now or datetime.now(UTC)
    given = await given_authority(client, namespace, authority_secret) if authority_secret else None
    for _ in range(5):  # two operators may start at the same time: the slower one reads what the other wrote
        found = await find_secret(client, namespace, name)
        identity = read_identity(found)
        rotate = found is not None and ROTATE in found.metadata.annotations
        wanted = _wanted(identity or known, known, names, now, rotate=rotate, given=given)
        if wanted == identity:
            return identity
        try:
            await _write(client, namespace, name, wanted, found)
        except ApiError as error:
            if not (error.is_conflict or error.is_already_exists):
                raise
        else:
            return wanted
    raise RuntimeError(f"Secret {namespace}/{name} is being changed by somebody else all the time")


async def forget_previous(client: Client, namespace: str, name: str, names: Sequence[str]) -> None:
    """Ends a replacement: the new authority issues the certificate, and the former key opens nothing any more."""
    found = await find_secret(client, namespace, name)
    identity = read_identity(found)
    if identity is not None and identity.previous is not None:
        alone = _renewed(msgspec.structs.replace(identity, previous=None), names)
        await _write(client, namespace, name, alone, found)


def _wanted(
    identity: Identity | None,
    known: Identity | None,
    names: Sequence[str],
    now: datetime,
    *,
    rotate: bool,
    given: Pair | None,
) -> Identity:
    wanted = identity or _new(names, given)
    if wanted.previous is None and known is not None and (known.key, known.ca) != (wanted.key, wanted.ca):
        wanted = _after(wanted, known, now)
    elif wanted.previous is None and (other := _next_authority(wanted, now, rotate=rotate, given=given)):
        replaced = msgspec.structs.replace(wanted, ca=other.certificate.decode(), ca_key=other.key.decode())
        wanted = _after(replaced, wanted, now)
    return wanted if wanted.serves(names, now) else _renewed(wanted, names)


def _next_authority(identity: Identity, now: datetime, *, rotate: bool, given: Pair | None) -> Pair | None:
    """The authority that is to replace the present one; None if it stays. A given one is its giver's to renew."""
    if given is not None:
        return given if (given.certificate, given.key) != (identity.ca.encode(), identity.ca_key.encode()) else None
    if rotate or identity.authority.ends - now < LIFETIME + RENEW_BEFORE:
        return Authority.create(_COMMON_NAME).pair
    return None


def _after(identity: Identity, before: Identity, now: datetime) -> Identity:
    trusted, former = before.previous or before, before.previous
    earlier = dict(zip(former.keys, former.replaced, strict=True)) if former is not None else {}
    earlier.pop(before.key, None)
    replaced = {before.key: now.timestamp(), **earlier}
    previous = Previous(tuple(replaced), tuple(replaced.values()), trusted.ca, trusted.ca_key)
    return msgspec.structs.replace(identity, previous=previous)


def _token(key: bytes, job_uid: str) -> str:
    return hmac.new(key, job_uid.encode(), hashlib.sha256).hexdigest()


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
    data[TRUSTED] = identity.trusted.encode()
    if identity.previous is not None:
        data["previous.json"] = msgspec.json.encode(identity.previous)
    await write_secret(client, namespace, name, data, found)


async def remember_port(client: Client, namespace: str, name: str, port: int) -> None:
    found = await client.get(SECRETS, name, namespace=namespace, type=Secret)
    identity = read_identity(found)
    if identity is not None:
        await _write(client, namespace, name, msgspec.structs.replace(identity, port=port), found)


def read_identity(found: Secret | None) -> Identity | None:
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
            msgspec.json.decode(data["previous.json"], type=Previous) if "previous.json" in data else None,
        )
        identity.tls()
    except (KeyError, ValueError, msgspec.DecodeError, ssl.SSLError):
        return None
    return identity


def _new(names: Sequence[str], given: Pair | None) -> Identity:
    authority = given or Authority.create(_COMMON_NAME).pair
    bare = Identity(secrets.token_bytes(32), authority.certificate.decode(), authority.key.decode(), "", "")
    return _renewed(bare, names)


def _renewed(identity: Identity, names: Sequence[str]) -> Identity:
    """Another certificate of the same authority, for what the last one was good for too: operators that are called by
    different names do not take each other's away."""
    before = identity.pair.hosts - set(names) if identity.certificate else set()
    pair = identity.authority.issue("edl job service", hosts=[*names, *sorted(before)], lifetime=LIFETIME)
    return msgspec.structs.replace(identity, certificate=pair.certificate.decode(), certificate_key=pair.key.decode())
