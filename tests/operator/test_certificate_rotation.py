"""Rotation of a running operator's certificate: renewed by the first replica that checks, picked up by the others."""

import asyncio
import base64
import ssl
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edl.certificates import LIFETIME as AUTHORITY_LIFETIME
from edl.certificates import Authority, Pair
from edl.operator.credentials.certificate_rotation import IdentityReplacedError, Rotation
from edl.operator.credentials.identity import LIFETIME, OVERLAP, RENEW_BEFORE, ROTATE, Identity, load_identity
from edl.operator.resources import NAMESPACES, SECRETS
from tests.operator.stage import Stage, stage

NAMES = ["localhost", "127.0.0.1"]
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}


async def rotation(scene: Stage, *, later: timedelta = timedelta(0), **more: Any) -> Rotation:
    """Of an operator that starts now."""
    identity = await load_identity(scene.client, "ns", "s", NAMES)
    return Rotation(
        scene.client, identity, namespace="ns", secret="s", names=NAMES, now=lambda: datetime.now(UTC) + later, **more
    )


async def presented(rotation: Rotation, trusted_ca: str = "") -> Pair:
    """The certificate that a client is shown, by one that trusts the authority alone."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=rotation.tls)
    port = server.sockets[0].getsockname()[1]
    trusted = ssl.create_default_context(cadata=trusted_ca or rotation.identity.ca)
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
        await early.renew_if_due()
        assert early.identity.certificate == first, "it has long to go"
        await late.renew_if_due()
        renewed = late.identity.certificate
        assert renewed != first
        assert (await presented(late)).certificate.strip() == renewed.strip().encode()

        await early.renew_if_due()
        assert early.identity.certificate == renewed, "the other replica follows"
        assert (await presented(early)).certificate.strip() == renewed.strip().encode()


async def test_a_secret_that_was_deleted_is_written_again() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        running = await rotation(scene)
        await scene.client.delete(SECRETS, "s", namespace="ns")
        await running.renew_if_due()
        assert await load_identity(scene.client, "ns", "s", NAMES) == running.identity


@pytest.mark.case("attack-3")
async def test_another_key_and_authority_end_the_process_and_running_pods_keep_their_access() -> None:
    """Somebody puts another Secret there, or a new operator made one before the last old one ended."""
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        running = await rotation(scene)
        await scene.client.delete(SECRETS, "s", namespace="ns")
        other = await load_identity(scene.client, "ns", "s", NAMES)
        assert (other.key, other.ca) != (running.identity.key, running.identity.ca)
        with pytest.raises(IdentityReplacedError, match="Secret ns/s was replaced"):
            await running.renew_if_due()
        after = await rotation(scene)
        assert (after.identity.key, after.identity.ca) == (other.key, other.ca)
        await presented(after, running.identity.ca)  # to a pod that was made before
        await presented(after, after.identity.trusted)
        assert set(after.identity.former_tokens("uid")) == {running.identity.token("uid"), other.token("uid")}
        began = after.identity.token("uid", created=0.0)
        assert began == running.identity.token("uid"), "a job that runs keeps the token that its pods show each other"
        assert after.identity.token("uid", created=time.time() + 60) == other.token("uid")
        assert after.identity.token("uid") != running.identity.token("uid")
        late = time.time() + OVERLAP + 60
        assert after.identity.former_tokens("uid", created=0.0) == after.identity.former_tokens("uid")
        assert after.identity.former_tokens("uid", created=late) == (), "a key that was stolen opens no later job"


@pytest.mark.case("attack-3")
async def test_one_replacement_within_another_keeps_the_first_pods_served() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        first = (await rotation(scene)).identity
        await scene.client.patch(SECRETS, "s", {"metadata": {"annotations": {ROTATE: "now"}}}, namespace="ns")
        during = await rotation(scene)
        for _ in range(2):
            await scene.client.delete(SECRETS, "s", namespace="ns")
            await load_identity(scene.client, "ns", "s", NAMES)
            await during.hand_over()
            during = await rotation(scene)
        await presented(during, first.ca)
        await presented(during, during.identity.trusted)
        assert first.token("uid") in during.identity.former_tokens("uid")


async def test_the_last_one_hands_over_what_it_alone_knows() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        ending = await rotation(scene)
        await scene.client.delete(SECRETS, "s", namespace="ns")
        await load_identity(scene.client, "ns", "s", NAMES)
        await ending.hand_over()
        await presented(await rotation(scene), ending.identity.ca)


@pytest.mark.case("attack-3")
async def test_an_authority_is_replaced_on_request_under_running_pods() -> None:
    """Until all pods that know only the former one are gone it issues the certificate; then the new one does."""
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        before = await rotation(scene)
        await scene.client.patch(SECRETS, "s", {"metadata": {"annotations": {ROTATE: "now"}}}, namespace="ns")
        during = await rotation(scene)
        assert during.identity.ca != before.identity.ca
        assert during.identity.token("uid") == before.identity.token("uid")
        assert during.identity.former_tokens("uid") == (), "the key is the same"
        await presented(during, before.identity.ca)
        await presented(during, during.identity.trusted)
        with pytest.raises(IdentityReplacedError):
            await before.renew_if_due()

        late, made = timedelta(seconds=OVERLAP + 60), [0.0]
        ending = await rotation(scene, later=late, outlived=lambda when: not any(one < when for one in made))
        await ending.renew_if_due()
        assert ending.identity.previous is not None, "one pod is left"
        made.clear()
        await ending.renew_if_due()
        with pytest.raises(IdentityReplacedError):
            await ending.renew_if_due()
        after = await rotation(scene)
        assert after.identity.previous is None
        await presented(after, during.identity.ca)
        with pytest.raises(ssl.SSLError):
            await presented(after, before.identity.ca)


async def test_an_authority_that_nears_its_end_is_replaced_by_itself() -> None:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        before = await rotation(scene)
        late = AUTHORITY_LIFETIME - LIFETIME
        with pytest.raises(IdentityReplacedError):
            await (await rotation(scene, later=late)).renew_if_due()
        after = await rotation(scene)
        assert after.identity.ca != before.identity.ca
        await presented(after, before.identity.ca)


async def test_a_certificate_of_another_authority_is_not_presented() -> None:
    """Somebody replaced the authority and left the certificate: pods would not trust it."""
    async with stage() as scene:
        await scene.client.create(NAMESPACES, SPACE)
        await load_identity(scene.client, "ns", "s", NAMES)
        other = Authority.create("edl job service CA").pair
        data = {"ca.crt": base64.b64encode(other.certificate).decode(), "ca.key": base64.b64encode(other.key).decode()}
        await scene.client.patch(SECRETS, "s", {"data": data}, namespace="ns")
        await presented(await rotation(scene), other.certificate.decode())


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
