"""The cluster's own certificate authority: TLS on loopback without asking anybody.

`Authority` lives in a directory (`ca.crt`, `ca.key`, mode 0600) and is made on first use. It issues certificates for
servers (the API server, process nodes) and for clients (the API server when it calls a node). Keys are P-256, which
are made in a millisecond.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def create(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("edl embedded cluster", ())
        builder = _builder(name, name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(_pair(builder.sign(key, hashes.SHA256()), key))

    @classmethod
    def at(cls, directory: Path) -> Authority:
        """The authority kept in `directory`, made on first use."""
        certificate, key = directory / "ca.crt", directory / "ca.key"
        if certificate.exists() and key.exists():
            return cls(Pair(certificate.read_bytes(), key.read_bytes()))
        authority = cls.create()
        write_private(key, authority.pair.key)
        write_private(certificate, authority.pair.certificate)
        return authority

    def issue(self, common_name: str, *, hosts: Sequence[str] = (), organizations: Sequence[str] = ()) -> Pair:
        """A certificate for a server at `hosts` (names and addresses); without hosts, for a client of that name and
        those groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name, organizations), self._certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False
            )
        return _pair(builder.sign(self._key, hashes.SHA256()), key)

    def server_context(self, pair: Pair, *, accept_clients: bool = True) -> ssl.SSLContext:
        """For a listener; clients may (need not) present a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(context, pair)
        if accept_clients:
            context.load_verify_locations(cadata=self.pair.certificate.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """For a client that trusts this authority alone and presents `pair` if given."""
        context = ssl.create_default_context(cadata=self.pair.certificate.decode())
        if pair is not None:
            _load(context, pair)
        return context


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    """`ssl` reads certificates from files alone: one that exists for the blink of the call, mode 0600."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(pem), secret)
