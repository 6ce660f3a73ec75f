"""The server as a whole: restarts, authentication, and the two transports (HTTP and direct)."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edl.certificates import Authority
from edl.embedded.certificates import authority_at
from edl.embedded.server import ADMIN, Server, User
from edl.embedded.server.http.direct import direct_transport
from edl.embedded.server.storage.store_file import StoreError
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from tests.conformance.samples import DEFINITIONS, GADGETS, config, definition, gadget, made, pod, service
from tests.embedded.server.requests import ask

MAPS = "/api/v1/namespaces/default/configmaps"
TOKENS = {"t": ADMIN}
GADGET_PATH = f"/apis/{GADGETS}/v1/namespaces/default/gadgets"


async def test_definitions_are_served_again_after_a_restart(tmp_path: Path) -> None:
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        await ask(server, "POST", DEFINITIONS, definition(GADGETS))
        await ask(server, "POST", GADGET_PATH, gadget("kept"))
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        assert (await ask(server, "GET", f"{GADGET_PATH}/kept"))[0] == 200
        code, refused = await ask(server, "POST", GADGET_PATH, gadget("bad", replicas=99))
        assert (code, refused["reason"]) == (422, "Invalid")


async def test_a_definition_that_was_going_goes_after_a_restart(tmp_path: Path) -> None:
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        await ask(server, "POST", DEFINITIONS, definition(GADGETS))
        held = gadget("held")
        held["metadata"]["finalizers"] = ["a.b/c"]
        await ask(server, "POST", GADGET_PATH, held)
        await ask(server, "DELETE", f"{DEFINITIONS}/gadgets.{GADGETS}")
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        await ask(
            server,
            "PATCH",
            f"{GADGET_PATH}/held",
            {"metadata": {"finalizers": None}},
            media="application/merge-patch+json",
        )
        async with asyncio.timeout(10):
            while (await ask(server, "GET", f"{DEFINITIONS}/gadgets.{GADGETS}"))[0] != 404:
                await asyncio.sleep(0.01)
        assert (await ask(server, "GET", GADGET_PATH))[0] == 404


async def test_service_account_tokens_survive_a_restart_and_not_their_account(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        await ask(server, "POST", path, made("ServiceAccount", "robot"))
        _, answer = await ask(server, "POST", f"{path}/robot/token", {"spec": {}})
        token = answer["status"]["token"]
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        user = server.api.tokens.user(token)
        assert user is not None
        assert user.name == "system:serviceaccount:default:robot"
        assert server.api.tokens.user(token[:-2]) is None
        assert server.api.tokens.user("a.b.c") is None
        await ask(server, "DELETE", f"{path}/robot")
        assert server.api.tokens.user(token) is None
        await ask(server, "POST", path, made("ServiceAccount", "robot"))
        assert server.api.tokens.user(token) is None


async def test_tokens_expire() -> None:
    now = [1_000_000.0]
    async with Server(None, tokens=TOKENS, clock=lambda: now[0]) as server:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        _, answer = await ask(server, "POST", path, {"spec": {"expirationSeconds": 600}})
        assert server.api.tokens.user(answer["status"]["token"]) is not None
        now[0] += 601
        assert server.api.tokens.user(answer["status"]["token"]) is None


async def test_certificates_of_the_authority_are_identities(tmp_path: Path) -> None:
    authority, stranger = authority_at(tmp_path), Authority.create("stranger")
    tls = authority.server_context(authority.issue("apiserver", hosts=["127.0.0.1"]))
    async with Server(None, tokens=TOKENS, tls=tls) as server:
        mine = authority.client_context(authority.issue("alice", organizations=["devs"]))
        assert await whoami(server, mine) == ("alice", ["devs", "system:authenticated"])
        other = authority.client_context(stranger.issue("mallory", organizations=["system:masters"]))
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await whoami(server, other)
        assert await whoami(server, authority.client_context()) == 403


async def whoami(server: Server, tls: ssl.SSLContext) -> Any:
    path = f"{server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with aiohttp.ClientSession() as http, http.post(path, json={}, ssl=tls) as answer:
        if answer.status != 201:
            return answer.status
        info = (await answer.json())["status"]["userInfo"]
        return info["username"], info["groups"]


def test_the_authority_is_kept_private(tmp_path: Path) -> None:
    first = authority_at(tmp_path / "pki")
    assert authority_at(tmp_path / "pki").pair == first.pair
    assert (tmp_path / "pki" / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700


async def test_the_client_of_edl_kube_works_without_a_socket() -> None:
    async with Server(None, tokens=TOKENS) as server:
        client = Client(direct_transport(server.api, user=User("me")))
        maps = Resource("", "v1", "configmaps", "ConfigMap")
        await client.create(maps, config("m", a="1"), namespace="default")
        found: Any = await client.get(maps, "m", namespace="default")
        assert found["data"] == {"a": "1"}
        with pytest.raises(ApiError) as refused:
            await client.create(maps, config("m"), namespace="default")
        assert refused.value.is_already_exists
        await client.close()


async def test_a_store_that_cannot_write_says_so_and_goes_on_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(None, tokens=TOKENS) as server:
        await ask(server, "POST", MAPS, config("before"))

        def full(*_rows: object, **_more: object) -> None:
            raise StoreError("store.db: nothing was written: database or disk is full. Free some space")

        with monkeypatch.context() as patch:
            patch.setattr(server.store._file, "write", full)
            code, status = await ask(server, "POST", MAPS, config("after"))
            assert (code, status["reason"]) == (500, "InternalError")
            assert "database or disk is full. Free some space" in status["message"]
            assert (await ask(server, "GET", f"{MAPS}/before"))[0] == 200
        assert (await ask(server, "POST", MAPS, config("after")))[0] == 201


async def test_a_definition_whose_write_failed_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(None, tokens=TOKENS) as server:

        def full(*_rows: object, **_more: object) -> None:
            raise StoreError("full")

        with monkeypatch.context() as patch:
            patch.setattr(server.store._file, "write", full)
            assert (await ask(server, "POST", DEFINITIONS, definition(GADGETS)))[0] == 500
        assert (await ask(server, "GET", GADGET_PATH))[0] == 404


async def test_services_get_addresses_that_this_machine_can_listen_on() -> None:
    async with Server(None, tokens=TOKENS, service_network="127.96.0.0/30") as server:
        path = "/api/v1/namespaces/default/services"
        _, first = await ask(server, "POST", path, service("a"))
        assert first["spec"]["clusterIP"] == "127.96.0.2"
        code, refused = await ask(server, "POST", path, service("b"))
        assert (code, refused["message"]) == (
            500,
            "Internal error occurred: failed to allocate a service IP: range is full",
        )
        await ask(server, "DELETE", f"{path}/a")
        _, again = await ask(server, "POST", path, service("b"))
        assert again["spec"]["clusterIP"] == "127.96.0.2"
        code, refused = await ask(server, "POST", path, service("c", clusterIP="10.0.0.1"))
        assert code == 422
        assert "not in the valid range" in refused["message"]


async def test_two_writers_of_one_turn_cannot_both_win() -> None:
    async with Server(None, tokens=TOKENS) as server:
        answers = await asyncio.gather(*(ask(server, "POST", MAPS, config("one")) for _ in range(10)))
        assert sorted(code for code, _ in answers) == [201] + [409] * 9
        _, found = await ask(server, "GET", f"{MAPS}/one")
        puts = await asyncio.gather(
            *(ask(server, "PUT", f"{MAPS}/one", {**found, "data": {"n": str(n)}}) for n in range(10))
        )
        assert sorted(code for code, _ in puts) == [200] + [409] * 9


async def test_quota_holds_within_one_turn() -> None:
    async with Server(None, tokens=TOKENS) as server:
        base = "/api/v1/namespaces/default"
        await ask(server, "POST", f"{base}/resourcequotas", made("ResourceQuota", "q", spec={"hard": {"pods": "3"}}))
        answers = await asyncio.gather(*(ask(server, "POST", f"{base}/pods", pod(f"p{n}")) for n in range(10)))
        assert sorted(code for code, _ in answers) == [201] * 3 + [403] * 7
        _, quota = await ask(server, "GET", f"{base}/resourcequotas/q")
        assert quota["status"]["used"] == {"pods": "3"}
        await ask(server, "DELETE", f"{base}/pods/{next(a['metadata']['name'] for c, a in answers if c == 201)}")
        assert (await ask(server, "POST", f"{base}/pods", pod("late")))[0] == 201


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"minReplicas": 5, "maxReplicas": 2}, "spec"),
        ({"minReplicas": 0}, "spec.minReplicas"),
    ],
)
async def test_our_own_kinds_are_validated_by_edl_api(change: dict[str, Any], field: str) -> None:
    from edl.cli.local.admission import edl_rules
    from edl.jobs.crds import crds

    job = {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "j"},
        "spec": {
            "replicaSpecs": {
                "Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
            }
        },
    }
    path = "/apis/elastic.pytorch.org/v1alpha1/namespaces/default/elasticjobs"
    async with Server(None, tokens=TOKENS, custom_admission=edl_rules) as server:
        for one in crds():
            assert (await ask(server, "POST", DEFINITIONS, one))[0] == 201
        assert (await ask(server, "POST", path, job))[0] == 201
        bad = json.loads(json.dumps(job))
        bad["metadata"]["name"] = "bad"
        bad["spec"] |= change
        code, refused = await ask(server, "POST", path, bad)
        assert (code, refused["reason"]) == (422, "Invalid")
        assert all(cause["field"].startswith(field) for cause in refused["details"]["causes"])


async def test_names_are_generated_without_collision() -> None:
    async with Server(None, tokens=TOKENS) as server:
        body = {"metadata": {"generateName": "made-"}}
        answers = await asyncio.gather(*(ask(server, "POST", MAPS, body) for _ in range(200)))
        assert len({answer["metadata"]["name"] for _, answer in answers}) == 200


async def test_a_client_that_goes_away_takes_nothing_back(tmp_path: Path) -> None:
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        data = json.dumps(config("kept")).encode()
        head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        writer.transport.abort()
        async with asyncio.timeout(10):
            while (await ask(server, "GET", f"{MAPS}/kept"))[0] != 200:
                await asyncio.sleep(0.01)


async def test_an_idle_watch_ends_with_its_client(tmp_path: Path) -> None:
    async with Server(tmp_path / "s.db", tokens=TOKENS) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        assert len(server._listener._watches) == 1
        writer.transport.abort()
        async with asyncio.timeout(10):
            while server._listener._watches:
                await asyncio.sleep(0.01)
