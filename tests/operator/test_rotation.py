"""A running operator's certificate: renewed in time by whoever looks first, followed by the others, under TLS."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from edl.certificates import Authority, Pair
from edl.operator.identity import LIFETIME, RENEW_BEFORE, Identity, load_identity
from edl.operator.resources import NAMESPACES, SECRETS
from edl.operator.rotation import IdentityReplacedError, Rotation
from tests.operator.stage import Stage, stage

NAMES = ["localhost", "127.0.0.1"]
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}


async def rotation(scene: Stage, *, later: timedelta = timedelta(0)) -> Rotation:
    identity = await load_identity(scene.client, "ns", "s", NAMES)
    return Rotation(
        scene.client, identity, namespace="ns", secret="s", names=NAMES, now=lambda: datetime.now(UTC) + later
    )


async def presented(rotation: Rotation) -> Pair:
    """The certificate that a client is shown, by one that trusts the authority alone."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=rotation.tls)
    port = server.sockets[0].getsockname()[1]
    trusted = ssl.create_default_context(cadata=rotation.identity.ca)
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
    finally:
        server.close()
    return Pair(ssl.DER_cert_to_PEM_cert(shown).encode(), b"")


async def test_it_is_renewed_in_time_and_presented_at_once() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        early, late = await rotation(scene), await rotation(scene, later=LIFETIME - RENEW_BEFORE + timedelta(days=1))
        first = early.identity.certificate
        await early.look()
        assert early.identity.certificate == first, "it has long to go"
        await late.look()
        renewed = late.identity.certificate
        assert renewed != first
        assert (await presented(late)).certificate.strip() == renewed.strip().encode()

        await early.look()
        assert early.identity.certificate == renewed, "the other replica follows"
        assert (await presented(early)).certificate.strip() == renewed.strip().encode()


async def test_another_key_ends_the_process() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        running = await rotation(scene)
        await scene.client.delete(SECRETS, "s", namespace="ns")
        with pytest.raises(IdentityReplacedError, match="Secret ns/s was replaced"):
            await running.look()


async def test_operators_with_different_names_do_not_fight() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        await load_identity(scene.client, "ns", "s", ["one"])
        both = await load_identity(scene.client, "ns", "s", ["two"])
        assert both.pair.hosts == {"one", "two"}
        assert await load_identity(scene.client, "ns", "s", ["one"]) == both


async def test_a_certificate_with_another_key_is_not_used() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        first = await load_identity(scene.client, "ns", "s", NAMES)
        stranger = Authority.create("x").issue("x", hosts=NAMES)
        data = {"tls.key": base64.b64encode(stranger.key).decode()}
        await scene.client.patch(SECRETS, "s", {"data": data}, namespace="ns")
        again: Identity = await load_identity(scene.client, "ns", "s", NAMES)
        assert again.certificate != first.certificate
        again.tls()
