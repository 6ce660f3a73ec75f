"""Certificates of a certificate authority that lives as long as a test cluster."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(minutes=5)


def new_key(file: Path) -> ec.EllipticCurvePrivateKey:
    """A private key, also written to `file` for its owner's eyes only."""
    key = ec.generate_private_key(ec.SECP256R1())
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return key


@dataclass(frozen=True)
class Authority:
    """Signs certificates, each as a pair of files `NAME.crt` and `NAME.key` in one directory."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, directory: Path) -> "Authority":
        key = new_key(directory / "ca.key")
        subject = _subject("edl-test-ca", [])
        builder = (
            _builder(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
        )
        certificate = builder.sign(key, hashes.SHA256())
        (directory / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(certificate, key)

    def issue(self, directory: Path, file: str, *, user: str, groups: list[str], names: list[str]) -> None:
        """A certificate for both ends: `names` are those of a server, `user` and `groups` what a client is."""
        key = new_key(directory / f"{file}.key")
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(_subject(user, groups), self.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usages, critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        (directory / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


_SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _subject(user: str, groups: list[str]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
