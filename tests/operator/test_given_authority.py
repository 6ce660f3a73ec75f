"""An authority of the administrator's: it issues the certificates, is followed when renewed, refused if it is none."""

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from edl.certificates import Authority, Pair
from edl.operator.credentials.certificate_rotation import IdentityReplacedError
from edl.operator.credentials.given_authority import AuthorityError
from edl.operator.credentials.identity import Identity, load_identity
from edl.operator.resources import NAMESPACES, SECRETS
from tests.operator.stage import Stage, stage
from tests.operator.test_certificate_rotation import NAMES, SPACE, presented, rotation

GIVEN = "authority"


async def give(scene: Stage, pair: Pair, **more: bytes) -> None:
    data = {
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        **{name.replace("_", "."): text for name, text in more.items()},
    }
    encoded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    metadata = {"name": GIVEN, "namespace": "ns"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
    await scene.client.apply(SECRETS, GIVEN, body, namespace="ns")


async def load(scene: Stage) -> Identity:
    return await load_identity(scene.client, "ns", "s", NAMES, authority_secret=GIVEN)


def rsa_below_a_root() -> tuple[Pair, bytes]:
    """An authority with an RSA key, which another one has signed; and that one's certificate."""
    root_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    root = _certificate("corporate root", "corporate root", root_key, root_key)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(_certificate("corporate issuing", "corporate root", key, root_key), secret), root


def _certificate(name: str, issuer: str, key: rsa.RSAPrivateKey, signer: rsa.RSAPrivateKey) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=900))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def test_it_issues_the_certificate_from_the_start() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        authority = Authority.create("corporate CA")
        await give(scene, authority.pair)
        identity = await load(scene)
        assert authority.issued(identity.pair)
        assert identity.trusted.encode().strip() == authority.pair.certificate.strip()
        assert await load(scene) == identity, "and nothing is written twice"


async def test_one_below_a_root_is_believed_by_who_trusts_what_pods_are_given() -> None:
    """Its root comes with it: clients believe no chain whose end they do not know."""
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        pair, root = rsa_below_a_root()
        root_of_all = Authority.create("unrelated").pair.certificate
        await give(scene, pair, ca_crt=root)
        identity = await load(scene)
        running = await rotation(scene, authority_secret=GIVEN)
        assert running.identity == identity
        await presented(running, identity.trusted)
        with pytest.raises(ssl.SSLCertVerificationError):
            await presented(running, root_of_all.decode())


async def test_given_to_an_installation_that_runs_the_former_one_stays_beside_it() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        before = await load_identity(scene.client, "ns", "s", NAMES)
        await give(scene, Authority.create("corporate CA").pair)
        after = await load(scene)
        assert (after.key, after.previous is not None) == (before.key, True)
        running = await rotation(scene, authority_secret=GIVEN)
        await presented(running, before.trusted)
        await presented(running, after.trusted)


async def test_a_renewed_one_ends_the_process_and_pods_keep_their_access() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        await give(scene, Authority.create("corporate CA").pair)
        first = await load(scene)
        running = await rotation(scene, authority_secret=GIVEN)
        await give(scene, Authority.create("corporate CA").pair)
        with pytest.raises(IdentityReplacedError):
            await running.renew_if_due()
        await presented(await rotation(scene, authority_secret=GIVEN), first.trusted)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (Pair(b"no certificate", b"no key"), "holds no authority"),
        (Authority.create("a").issue("leaf", hosts=["localhost"]), "tls.crt is no CA's"),
        (Pair(Authority.create("a").pair.certificate, Authority.create("b").pair.key), "tls.key is another's"),
    ],
    ids=["nonsense", "a leaf", "another's key"],
)
async def test_what_is_no_authority_is_refused_with_the_reason(pair: Pair, words: str) -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        with pytest.raises(AuthorityError, match=r"Secret ns/authority .* is not there"):
            await load(scene)
        await give(scene, pair)
        with pytest.raises(AuthorityError, match=words):
            await load(scene)
