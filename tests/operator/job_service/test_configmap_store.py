"""The states of jobs in a real API server: guarded by versions, owned by the job, never in a foreign object."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

from edl.embedded.server import ADMIN, Server
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import HttpTransport
from edl.operator.job_service import ConflictError, JobRecord, UnavailableError
from edl.operator.job_service.configmap_store import CONFIGMAPS, ConfigMapStore
from edl.operator.job_service.group_commit import DurableState, RateLimiter
from edl.operator.job_service.restored_state import backed_up
from edl.operator.job_service.state import LIMIT, JobState, claim, form, put
from edl.protocol.rounds import Member, Round
from tests.operator.job_service.timeline import Timeline

OWNER: dict[str, str | bool] = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "name": "j",
    "uid": "u1",
    "controller": True,
}
RECORD = JobRecord(uid="u1", token="t", owner=OWNER)
NAME = "j-edl-state"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Server(None, tokens={"admin": ADMIN}) as server:
        client = Client(HttpTransport(ClientConfig(server.url, fixed_auth(Auth({"Authorization": "Bearer admin"})))))
        yield client
        await client.close()


def state(data: bytes = b"\x00\xff", writer: str = "me") -> JobState:
    made, _ = claim(JobState(writer=writer), "master", 0, "pod/1", "10.0.0.1:8080")
    return put(made, "queue", data, None)[0]


async def test_a_state_comes_back_as_it_was_and_belongs_to_the_job(client: Client) -> None:
    store = ConfigMapStore(client)
    assert await store.load("default", "j", RECORD) is None
    version = await store.save("default", "j", RECORD, state(), None)
    stored = await store.load("default", "j", RECORD)
    assert stored is not None
    assert (stored.state, stored.version) == (state(), version)
    kept: Any = await client.get(CONFIGMAPS, NAME, namespace="default")
    assert kept["metadata"]["ownerReferences"] == [OWNER]
    assert '"holder":"pod/1"' in kept["data"]["state.json"], "a person can read who holds what"


async def test_the_largest_state_fits(client: Client) -> None:
    store, large = ConfigMapStore(client), put(JobState(), "k", bytes(range(256)) * (LIMIT // 256 - 1), None)[0]
    await store.save("default", "j", RECORD, large, None)
    stored = await store.load("default", "j", RECORD)
    assert stored is not None
    assert stored.state == large


async def test_the_round_of_a_thousand_agents_comes_back(client: Client) -> None:
    members = tuple(
        Member(f"a-job-with-quite-a-long-name-worker-{n}/abcdef12", "10.100.100.100:45678") for n in range(1000)
    )
    store, formed = ConfigMapStore(client), form(state(), Round("uid-1", 7, members))[0]
    await store.save("default", "j", RECORD, formed, None)
    stored = await store.load("default", "j", RECORD)
    assert stored is not None
    assert stored.state == formed


async def test_only_the_version_that_was_read_can_be_replaced(client: Client) -> None:
    store = ConfigMapStore(client)
    first = await store.save("default", "j", RECORD, state(), None)
    second = await store.save("default", "j", RECORD, state(b"2"), first)
    for stale in (first, None):
        with pytest.raises(ConflictError):
            await store.save("default", "j", RECORD, state(b"late"), stale)
    await client.delete(CONFIGMAPS, NAME, namespace="default")
    with pytest.raises(ConflictError):
        await store.save("default", "j", RECORD, state(b"late"), second)


async def test_what_an_older_job_of_the_name_left_is_not_read_and_makes_way(client: Client) -> None:
    store = ConfigMapStore(client)
    await store.save("default", "j", RECORD, state(), None)
    newer = msgspec.structs.replace(RECORD, uid="u2", owner={**OWNER, "uid": "u2"})
    assert await store.load("default", "j", newer) is None
    await store.save("default", "j", newer, state(b"new"), None)
    stored = await store.load("default", "j", newer)
    assert stored is not None
    assert stored.state.values["queue"].data == b"new"


async def test_a_foreign_object_in_our_name_is_never_touched(client: Client) -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"theirs": "yes"}}
    await client.create(CONFIGMAPS, foreign, namespace="default")
    store = ConfigMapStore(client)
    with pytest.raises(UnavailableError, match="not ours; delete it or rename the job"):
        await store.load("default", "j", RECORD)
    with pytest.raises(ConflictError):
        await store.save("default", "j", RECORD, state(), None)
    kept: Any = await client.get(CONFIGMAPS, NAME, namespace="default")
    assert kept["data"] == {"theirs": "yes"}


async def test_the_job_s_label_alone_makes_an_object_neither_ours_nor_a_leftover(client: Client) -> None:
    """Whoever may write ConfigMaps may write labels; the job's uid is no secret."""
    store = ConfigMapStore(client)
    for uid in ("u1", "u0"):
        metadata = {"name": NAME, "labels": {"edl.dev/job": "j", "edl.dev/job-uid": uid}}
        forged = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"theirs": "yes"}}
        await client.create(CONFIGMAPS, forged, namespace="default")
        with pytest.raises(UnavailableError, match="not ours"):
            await store.load("default", "j", RECORD)
        with pytest.raises(ConflictError):
            await store.save("default", "j", RECORD, state(), None)
        kept: Any = await client.get(CONFIGMAPS, NAME, namespace="default")
        assert kept["data"] == {"theirs": "yes"}
        await client.delete(CONFIGMAPS, NAME, namespace="default")


RESTORED = msgspec.structs.replace(
    RECORD, uid="u2", owner={**OWNER, "uid": "u2"}, restored_from="u1", state_keys=("new key", "key")
)


async def backup(client: Client) -> dict[str, Any]:
    """What `edl backup` prints of a job's state; the cluster is new, and does not have it."""
    await ConfigMapStore(client).save("default", "j", RECORD, state(), None)
    found = await client.get(CONFIGMAPS, NAME, namespace="default")
    await client.delete(CONFIGMAPS, NAME, namespace="default")
    return backed_up(found, job="j", uid="u1", key="key")


async def test_a_restored_job_takes_up_what_it_had_and_owns_it_with_the_first_write(client: Client) -> None:
    await client.create(CONFIGMAPS, await backup(client), namespace="default")
    store = ConfigMapStore(client)
    stored = await store.load("default", "j", RESTORED)
    assert stored is not None
    assert stored.state == state()
    next_state, epoch = claim(stored.state, "master", 0, "new/1", "10.0.0.2:8080")
    assert epoch == 2, "epochs go on"
    await store.save("default", "j", RESTORED, next_state, stored.version)
    kept: Any = await client.get(CONFIGMAPS, NAME, namespace="default")
    assert [one["uid"] for one in kept["metadata"]["ownerReferences"]] == ["u2"]
    assert "annotations" not in kept["metadata"], "the seal is of no use any more"
    again = await store.load("default", "j", RESTORED)
    assert again is not None
    assert again.state == next_state


@pytest.mark.parametrize(
    "forged", ["value", "slots", "no seal", "other uid", "other key", "other name", "other namespace"]
)
async def test_a_state_that_is_not_proven_to_be_the_jobs_is_not_read(client: Client, forged: str) -> None:
    """Whoever may write ConfigMaps in the namespace could have written it, or copied it from another job's backup."""
    body, record, place, job = await backup(client), RESTORED, "default", "j"
    if forged == "value":
        body["binaryData"]["kv.queue"] = "AAAA"
    elif forged == "slots":
        body["data"]["state.json"] = body["data"]["state.json"].replace("pod/1", "pod/2")
    elif forged == "no seal":
        del body["metadata"]["annotations"]
    elif forged == "other uid":
        record = msgspec.structs.replace(RESTORED, restored_from="u0")
    elif forged == "other key":
        record = msgspec.structs.replace(RESTORED, state_keys=("another",))
    elif forged == "other name":
        body["metadata"]["name"], job = "k-edl-state", "k"
    else:
        body["metadata"]["namespace"] = place = "kube-public"
    await client.create(CONFIGMAPS, body, namespace=place)
    with pytest.raises(UnavailableError, match="is not the state that this installation's key sealed"):
        await ConfigMapStore(client).load(place, job, record)


async def test_a_job_that_does_not_say_that_it_was_restored_takes_nothing_up(client: Client) -> None:
    await client.create(CONFIGMAPS, await backup(client), namespace="default")
    later = msgspec.structs.replace(RESTORED, restored_from="", state_keys=())
    with pytest.raises(UnavailableError, match="not ours; delete it or rename the job"):
        await ConfigMapStore(client).load("default", "j", later)


async def test_without_the_state_a_restored_job_waits_instead_of_beginning_anew(client: Client) -> None:
    """It would write over the checkpoints that it is to go on from."""
    store = ConfigMapStore(client)
    wait = "is missing, which the job was restored with; apply the whole backup"
    with pytest.raises(UnavailableError, match=wait):
        await store.load("default", "j", RESTORED)
    await store.save("default", "j", RECORD, state(), None)
    with pytest.raises(UnavailableError, match=wait):  # what an older job left is no help
        await store.load("default", "j", RESTORED)


async def test_one_that_was_edited_beyond_reading_says_so(client: Client) -> None:
    store = ConfigMapStore(client)
    await store.save("default", "j", RECORD, state(), None)
    await client.patch(CONFIGMAPS, NAME, {"data": {"state.json": "{"}}, namespace="default")
    with pytest.raises(UnavailableError, match="was edited and cannot be read"):
        await store.load("default", "j", RECORD)


async def test_group_commit_over_the_api_survives_edits_deletion_and_a_rival(client: Client) -> None:
    time, store = Timeline(), ConfigMapStore(client)

    def leader(name: str) -> DurableState:
        limiter = RateLimiter(clock=time.clock, sleep=time.sleep)
        return DurableState(
            "default", "j", RECORD, store=store, limiter=limiter, clock=time.clock, sleep=time.sleep, writer=name
        )

    async def write(job: DurableState, data: bytes) -> int:
        task = asyncio.create_task(job.write(partial(put, key="queue", data=data, expected=None)))
        while not task.done():
            await time.advance(1.0)
            await asyncio.sleep(0.01)
        return task.result()

    old = leader("old")
    assert await write(old, b"1") == 1
    await client.patch(CONFIGMAPS, NAME, {"metadata": {"labels": {"by": "hand"}}}, namespace="default")
    assert await write(old, b"2") == 2
    await client.delete(CONFIGMAPS, NAME, namespace="default")
    assert await write(old, b"3") == 3
    new = leader("new")
    assert (await new.load()).values["queue"].data == b"3"
    assert await write(new, b"4") == 4
    with pytest.raises(Exception, match="written by another"):
        await write(old, b"from the past")
    stored = await store.load("default", "j", RECORD)
    assert stored is not None
    assert stored.state.values["queue"].data == b"4"


async def test_an_api_server_that_does_not_answer_is_unavailable() -> None:
    client = Client(HttpTransport(ClientConfig("http://127.0.0.1:9", fixed_auth(Auth({})))))
    store = ConfigMapStore(client, timeout=0.5)
    with pytest.raises(UnavailableError):
        await store.load("default", "j", RECORD)
    with pytest.raises(UnavailableError):
        await store.save("default", "j", RECORD, JobState(), "1")
    await client.close()


async def test_a_namespace_that_is_missing_is_a_conflict_to_be_looked_into(client: Client) -> None:
    with pytest.raises(ConflictError):
        await ConfigMapStore(client).save("nowhere", "j", RECORD, JobState(), None)
    with pytest.raises(ApiError):
        await client.get(CONFIGMAPS, NAME, namespace="nowhere")
