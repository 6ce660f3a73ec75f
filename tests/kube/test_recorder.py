"""Events, conditions and owners: said once, counted, never in the way."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edl.kube.controllers.conditions import find_condition, set_condition
from edl.kube.controllers.owners import is_controlled_by, owner_reference
from edl.kube.controllers.recorder import LONGEST_NOTE, EventRecorder, Reference
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import Request, Response
from tests.kube.fake_api import FakeApi, answering, refuse
from tests.kube.things import THINGS, Meta, OwnerRef, Thing, client_of, running, until
from tests.virtual_time import virtual

JOB = Reference("test.dev/v1", "Thing", "job", "team", "uid-job")


def recorder_of(api: FakeApi, **options: Any) -> EventRecorder:
    loop = asyncio.get_running_loop()
    start = datetime(2030, 1, 1, tzinfo=UTC)
    return EventRecorder(
        client_of(api),
        controller="edl.dev/test",
        instance="pod-1",
        now=lambda: start + timedelta(seconds=loop.time()),
        **options,
    )


def written(api: FakeApi) -> list[dict[str, Any]]:
    return list(api.objects.get("events", {}).values())


@virtual
async def test_an_event_as_the_api_wants_it() -> None:
    api = FakeApi()
    recorder = recorder_of(api)
    async with running(recorder):
        recorder.record(JOB, "Scaled", "from 2 to 4", action="Scale")
        await until(lambda: len(written(api)) == 1)
    (event,) = written(api)
    name = event["metadata"].pop("name")
    assert name.startswith("job.")
    assert event["metadata"]["namespace"] == "team"
    del event["metadata"]
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "edl.dev/test",
        "reportingInstance": "pod-1",
        "action": "Scale",
        "reason": "Scaled",
        "type": "Normal",
        "note": "from 2 to 4",
        "regarding": {
            "apiVersion": "test.dev/v1",
            "kind": "Thing",
            "name": "job",
            "namespace": "team",
            "uid": "uid-job",
        },
    }
    assert api.requests[0].path == "/apis/events.k8s.io/v1/namespaces/team/events"


@virtual
async def test_the_same_thing_again_only_counts_up_once_a_minute() -> None:
    api = FakeApi()
    recorder = recorder_of(api)
    async with running(recorder):
        for _ in range(600):
            recorder.record(JOB, "Waiting", "no GPU", kind="Warning")
            await asyncio.sleep(1)
        await asyncio.sleep(120)
    (event,) = written(api)
    assert event["series"]["count"] == 600
    assert event["series"]["lastObservedTime"] == "2030-01-01T00:09:59.000000Z"
    assert len(api.requests) <= 13, "one a minute, not one a second"


@virtual
async def test_an_event_that_expired_is_written_anew() -> None:
    api = FakeApi()
    recorder = recorder_of(api)
    async with running(recorder):
        recorder.record(JOB, "Waiting", "no GPU")
        await until(lambda: len(written(api)) == 1)
        api.objects["events"].clear()
        recorder.record(JOB, "Waiting", "no GPU")
        await until(lambda: len(written(api)) == 1)
    assert written(api)[0]["series"]["count"] == 2


@virtual
async def test_one_that_talks_too_much_is_silenced_and_the_others_are_not() -> None:
    api = FakeApi()
    recorder = recorder_of(api)
    other = Reference("v1", "Node", "n1", uid="uid-n")
    async with running(recorder):
        for number in range(100):
            recorder.record(JOB, "Chatter", f"number {number}")
        recorder.record(other, "Ready", "is ready")
        await until(lambda: len(written(api)) == 26)
        assert recorder.dropped == 75
        assert sum(event["regarding"]["name"] == "n1" for event in written(api)) == 1
        assert written(api)[-1]["metadata"]["namespace"] == "default", "where events of cluster-wide objects live"
        await asyncio.sleep(301)
        recorder.record(JOB, "Chatter", "later")
        recorder.record(JOB, "Chatter", "and more")
        await until(lambda: len(written(api)) == 27)
        assert recorder.dropped == 76


@virtual
async def test_recording_never_waits_and_overflow_is_dropped() -> None:
    """The server hangs: `record` returns at once, memory is bounded, and the end comes in time."""
    api = FakeApi()

    async def hang(request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    api.next_writes.extend([hang] * 1000)
    recorder = recorder_of(api, pending=50, burst=1000)
    async with running(recorder):
        for number in range(500):
            recorder.record(JOB, "Chatter", f"number {number}")
        assert recorder.dropped == 450
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        await recorder.drain(timeout=5.0)
        assert asyncio.get_running_loop().time() - started < 7


@virtual
async def test_what_is_pending_is_written_at_the_end() -> None:
    api = FakeApi()
    recorder = recorder_of(api)
    task = asyncio.create_task(recorder.run())
    recorder.record(JOB, "Waiting", "no GPU")
    await until(lambda: len(written(api)) == 1)
    for _ in range(4):
        recorder.record(JOB, "Waiting", "no GPU")
    recorder.record(JOB, "Stopping", "good bye")
    await recorder.drain()
    await task
    counts = {event["reason"]: event.get("series", {}).get("count", 1) for event in written(api)}
    assert counts == {"Waiting": 5, "Stopping": 1}


@virtual
async def test_a_client_that_takes_its_time_is_not_waited_for_at_the_end() -> None:
    api = FakeApi()
    recorder = EventRecorder(
        client_of(api, rate_limiter=RateLimiter(qps=10, burst=5)), controller="edl.dev/test", instance="p"
    )
    task = asyncio.create_task(recorder.run())
    for number in range(200):
        recorder.record(Reference("test.dev/v1", "Thing", f"job-{number}", "team", f"uid-{number}"), "Begun", "so")
    await asyncio.sleep(1.05)
    assert len(written(api)) == 15, "as fast as the client allows"
    await recorder.drain()
    await task
    assert len(written(api)) == 200
    assert asyncio.get_running_loop().time() < 2


@pytest.mark.parametrize("fault", [refuse(403, "Forbidden"), refuse(404, "NotFound"), ConnectionLostError("reset")])
@virtual
async def test_an_event_that_cannot_be_written_is_dropped(fault: Response | Exception) -> None:
    api = FakeApi()
    api.next_writes.extend(answering(fault))
    recorder = recorder_of(api)
    async with running(recorder):
        recorder.record(JOB, "Lost", "to a namespace that is going away")
        await until(lambda: recorder.dropped == 1)
        recorder.record(JOB, "Next", "is written")
        await until(lambda: len(written(api)) == 1)


@virtual
async def test_long_notes_are_cut_between_characters() -> None:
    api = FakeApi()
    recorder = recorder_of(api)
    async with running(recorder):
        recorder.record(JOB, "Long", "ü" * 2000)
        await until(lambda: len(written(api)) == 1)
    note = written(api)[0]["note"]
    assert len(note.encode()) <= LONGEST_NOTE
    assert note.endswith("ü...")


def test_a_reference_from_an_object() -> None:
    owner = Thing(Meta("job", "team", "uid-job"))
    assert Reference.to(THINGS, owner) == JOB


# Conditions and owners.

NOW, LATER = "2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z"


def test_a_condition_keeps_its_time_until_its_state_changes() -> None:
    first = set_condition([], "Ready", "False", reason="Waiting", message="for pods", now=NOW, generation=1)
    assert first == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Waiting",
            "message": "for pods",
            "lastTransitionTime": NOW,
            "observedGeneration": 1,
        }
    ]
    same = set_condition(first, "Ready", "False", reason="Waiting", message="for pods", now=LATER, generation=1)
    assert same == first, "so that a cluster at rest sees no write"
    words = set_condition(first, "Ready", "False", reason="Waiting", message="for one pod", now=LATER)
    assert words[0]["lastTransitionTime"] == NOW
    turned = set_condition(words, "Ready", "True", reason="Running", now=LATER)
    assert turned[0]["lastTransitionTime"] == LATER


def test_the_other_conditions_stay_where_they_are() -> None:
    conditions = set_condition([], "A", "True", reason="x", now=NOW)
    conditions = set_condition(conditions, "B", "True", reason="x", now=NOW)
    conditions = set_condition(conditions, "A", "False", reason="y", now=LATER)
    assert [condition["type"] for condition in conditions] == ["A", "B"]
    found = find_condition(conditions, "B")
    assert found is not None
    assert found["reason"] == "x"
    assert find_condition(conditions, "C") is None


def test_owner_references_name_the_very_object() -> None:
    owner = Thing(Meta("job", "team", "uid-job"))
    reference = owner_reference(THINGS, owner)
    assert reference == {
        "apiVersion": "test.dev/v1",
        "kind": "Thing",
        "name": "job",
        "uid": "uid-job",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    child = Thing(
        Meta("pod", "team", "u", owner_references=(OwnerRef("test.dev/v1", "Thing", "job", "uid-job", True),))
    )
    assert is_controlled_by(child, owner)
    assert not is_controlled_by(child, Thing(Meta("job", "team", "another uid")))
    assert not is_controlled_by(owner, owner)
