"""What every operator of an installation shares: the key that job tokens are made with, and the job service's TLS.

It is in one Secret of the operator's namespace, made by whoever comes first. Tokens are derived from the key and the
job's uid, so that no leader has to read another's Secrets to know them.
"""

import base64
import hashlib
import hmac
import ipaddress
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edl.api.core import Secret
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.operator.resources import SECRETS

LIFETIME = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=90)


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

    def tls(self) -> ssl.SSLContext:
        """Python takes certificates from files only; they are gone again when this returns."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            chain, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
            chain.write_text(self.certificate)
            key.touch(mode=0o600)
            key.write_text(self.certificate_key)
            context.load_cert_chain(chain, key)
        return context

    def serves(self, names: Sequence[str], now: datetime) -> bool:
        """Whether the certificate is good for these names, and for a while."""
        certificate = x509.load_pem_x509_certificate(self.certificate.encode())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = {str(name.value) for name in found}
        return set(names) <= known and certificate.not_valid_after_utc - now > RENEW_BEFORE


async def load_identity(client: Client, namespace: str, name: str, names: Sequence[str]) -> Identity:
    """The installation's identity, made or renewed if need be. `names` are those under which the service is called."""
    for _ in range(5):  # two operators may start at the same time: whoever loses reads what the other wrote
        try:
            found = await client.get(SECRETS, name, namespace=namespace, type=Secret)
        except ApiError as error:
            if not error.is_not_found:
                raise
            found = None
        identity = _read(found)
        if identity is not None and identity.serves(names, datetime.now(UTC)):
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
        "key": base64.b64encode(identity.key).decode(),
        "ca.crt": _encoded(identity.ca),
        "ca.key": _encoded(identity.ca_key),
        "tls.crt": _encoded(identity.certificate),
        "tls.key": _encoded(identity.certificate_key),
    }
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "edl"}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
    if found is None:
        await client.create(SECRETS, body, namespace=namespace)
    else:
        metadata["resourceVersion"] = found.metadata.resource_version
        await client.replace(SECRETS, name, body, namespace=namespace)


async def remember_port(client: Client, namespace: str, name: str, port: int) -> None:
    found = await client.get(SECRETS, name, namespace=namespace, type=Secret)
    patch = {
        "metadata": {"resourceVersion": found.metadata.resource_version},
        "data": {"port": _encoded(str(port))},
    }
    await client.patch(SECRETS, name, patch, namespace=namespace)


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
        x509.load_pem_x509_certificate(identity.certificate.encode())
        serialization.load_pem_private_key(identity.ca_key.encode(), password=None)
    except (KeyError, ValueError):
        return None
    return identity


def _new(names: Sequence[str]) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edl job service CA")])
    builder = _builder(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    ca = builder.sign(key, hashes.SHA256())
    bare = Identity(secrets.token_bytes(32), _pem(ca), _pem_key(key), "", "")
    return _renewed(bare, names)


def _renewed(identity: Identity, names: Sequence[str]) -> Identity:
    """Another certificate of the same authority, so that pods that trust it go on trusting."""
    ca = x509.load_pem_x509_certificate(identity.ca.encode())
    signer = serialization.load_pem_private_key(identity.ca_key.encode(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        return _new(names)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edl job service")])
    builder = _builder(subject, ca.subject, key.public_key())
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(authority, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return msgspec.structs.replace(identity, certificate=_pem(certificate), certificate_key=_pem_key(key))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    start = datetime.now(UTC) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _pem_key(key: ec.EllipticCurvePrivateKey) -> str:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
