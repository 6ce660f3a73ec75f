"""A certificate authority, and the certificates that it issues to servers and clients.

Keys are P-256, which take a millisecond to make. Storing an authority and its certificates is the caller's work.
"""

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=3650)
_LATE_CLOCKS = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def ends(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    @property
    def hosts(self) -> set[str]:
        """The names and addresses that a server's certificate is good for."""
        certificate = x509.load_pem_x509_certificate(self.certificate)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {str(name.value) for name in found}

    def load_into(self, context: ssl.SSLContext) -> None:
        """`ssl` reads certificates from files alone: one that exists for the blink of the call, mode 0600. A context
        that serves already presents the new one from the next handshake on."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.certificate + self.key)
            file.flush()
            context.load_cert_chain(file.name)


class Authority:
    """ValueError if the pair is not a certificate and its key, of an elliptic curve or RSA. More certificates may
    follow the authority's own: those above it."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the authority's key is neither of an elliptic curve nor RSA")
        self._key = key

    @classmethod
    def create(cls, common_name: str) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name, ())
        builder = _builder(name, name, key.public_key(), datetime.now(UTC) + LIFETIME)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(_pair(builder.sign(key, hashes.SHA256()), key))

    def issue(
        self,
        common_name: str,
        *,
        hosts: Sequence[str] = (),
        organizations: Sequence[str] = (),
        lifetime: timedelta = LIFETIME,
    ) -> Pair:
        """A certificate for a server at `hosts` (names and addresses); without hosts, for a client of that name and
        those groups. It does not outlive the authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(datetime.now(UTC) + lifetime, self._certificate.not_valid_after_utc)
        builder = _builder(_name(common_name, organizations), self._certificate.subject, key.public_key(), end)
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

    @property
    def ends(self) -> datetime:
        return self.pair.ends

    @property
    def may_issue(self) -> bool:
        """Whether clients will believe it: it says that it is an authority, and the key is its own."""
        try:
            basic = self._certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            return False
        return basic.ca and self._certificate.public_key() == self._key.public_key()

    def issued(self, pair: Pair) -> bool:
        """Whether a certificate is this authority's: by its signature, for names are anybody's."""
        try:
            x509.load_pem_x509_certificate(pair.certificate).verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def server_context(self, pair: Pair, *, accept_clients: bool = True) -> ssl.SSLContext:
        """For a listener; clients may (need not) present a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair.load_into(context)
        if accept_clients:
            context.load_verify_locations(cadata=self.pair.certificate.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """For a client that trusts this authority alone and presents `pair` if given."""
        context = ssl.create_default_context(cadata=self.pair.certificate.decode())
        if pair is not None:
            pair.load_into(context)
        return context


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _LATE_CLOCKS)
        .not_valid_after(end)
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
