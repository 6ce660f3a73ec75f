"""A throw-away certificate authority, so that TLS is tested with TLS."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = _builder(self._name, self._name, self._key).add_extension(constraints, critical=True)
        self.pem = certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, common_name: str, *names: str) -> tuple[str, str]:
        """(certificate, key) in PEM, valid for these DNS names."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names or ("client",)])
        certificate = _builder(_name(common_name), self._name, key).add_extension(alternatives, critical=False)
        signed = certificate.sign(self._key, hashes.SHA256())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return signed.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
