"""What the page's API shows: jobs, one job, the cluster, the next plan, logs; and how it changes as they do."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from edl.api.kubernetes import timestamp
from edl.kube.rest.transport import Request
from edl.web import types
from edl.web.logs import LINE
from edl.web.openapi import CALLS, document
from edl.web.server import WebSettings
from tests.web.world import JOBS, KIND, sized, world


async def test_jobs_are_shown_with_size_target_and_reason() -> None:
    async with world() as there:
        await there.job("a", **sized(2, 4, reason="+2: room was free"), progress={"done": 30, "total": 120})
        await there.shown("a")
        await there.until(lambda: there.state.jobs.get(f"{KIND}/default/a").now == 2, "its size")  # type: ignore[union-attr]
        status, found = await there.get("jobs")
        assert status == 200
        row = msgspec.convert(found, types.Jobs).rows[0]
        assert (row.name, row.state, row.now, row.target, row.min, row.max) == ("a", "changing", 2, 4, 1, 8)
        assert (row.reason, row.percent) == ("+2: room was free", 25.0)


async def test_a_stream_begins_with_all_jobs_and_goes_on_with_changes() -> None:
    async with world() as there:
        await there.job("a")
        await there.shown("a")
        async with there.stream("view=jobs") as stream:
            first = await stream.next("jobs")
            assert first["reset"]
            assert [row["name"] for row in first["rows"]] == ["a"]
            await there.job("b")
            named: list[str] = []
            while "b" not in named:  # the last of what is known of "a" may come first
                second = await stream.next("jobs")
                assert not second["reset"]
                named = [row["name"] for row in second["rows"]]
            await there.client.delete(JOBS, "a", namespace="default")
            while True:
                later = await stream.next("jobs")
                if later["gone"]:
                    break
            assert later["gone"] == [f"{KIND}/default/a"]


async def test_a_burst_of_changes_is_one_message() -> None:
    async with world() as there:
        await there.job("a")
        await there.shown("a")
        async with there.stream("view=jobs") as stream:
            await stream.next("jobs")
            before = there.state.jobs.version
            there.state._gather = 0.2
            await asyncio.gather(*(there.status("a", **sized(2, reason=f"reason {number}")) for number in range(50)))
            await there.until(lambda: there.state.jobs.version > before, "the change")
            message = await stream.next("jobs")
            assert len(message["rows"]) == 1
            assert there.state.jobs.version - before <= 5


async def test_one_job_has_decisions_pods_and_advice() -> None:
    async with world() as there:
        await there.node("n-0")
        history = [{"from": 0, "to": 2, "reason": 'it said "go"', "time": "2026-01-01T00:00:00Z"}]
        job = await there.job("a", **sized(2, history=history))
        pod = await there.pod(job, 0, "n-0")
        await there.until(lambda: there.state.usage.by_job.get(f"{KIND}/default/a"), "its pod counts")
        status, found = await there.get(f"jobs/{KIND}/default/a")
        assert status == 200
        detail = msgspec.convert(found, types.JobDetail)
        assert [(one.before, one.to, one.reason) for one in detail.decisions] == [(0, 2, 'it said "go"')]
        assert [(one.name, one.node, one.state) for one in detail.pods or ()] == [(pod, "n-0", "Running")]
        assert detail.advice
        assert detail.points.time[0] == timestamp.seconds("2026-01-01T00:00:00Z")
        assert any("Brain" in note for note in detail.missing)


async def test_a_change_of_a_jobs_pods_reaches_its_page() -> None:
    async with world() as there:
        await there.node("n-0")
        job = await there.job("a")
        await there.shown("a")
        async with there.stream(f"view=job&job={KIND}/default/a") as stream:
            await stream.next("job")
            await there.pod(job, 0, "n-0")
            while True:
                found = await stream.next("job")
                if [one["state"] for one in found["pods"]] == ["Running"]:
                    break


async def test_the_cluster_sums_what_jobs_and_others_hold() -> None:
    async with world() as there:
        await there.node("n-0", cpu="8", gpu="4")
        job = await there.job("a")
        await there.pod(job, 0, "n-0", cpu="3")
        await there.job("b", conditions=[{"type": "Queued", "status": "True", "reason": "NoRoom"}], **sized(0))
        await there.until(lambda: there.state.usage.by_job, "the pod counts")
        await there.shown("a", "b")
        await there.until(lambda: there.state.jobs.get(f"{KIND}/default/b").state == "waiting", "it waits")  # type: ignore[union-attr]
        status, found = await there.get("cluster")
        assert status == 200
        view = msgspec.convert(found, types.ClusterView)
        assert (view.capacity[0], view.capacity[2], view.jobs[0], view.others[0]) == (8.0, 4.0, 3.0, 0.0)
        assert [row.name for row in view.queue] == ["b"]
        assert [(one.namespace, one.used[0], one.running, one.waiting) for one in view.shares] == [("default", 3, 1, 1)]


async def test_the_next_plan_is_the_schedulers_own() -> None:
    async with world() as there:
        await there.node("n-0", cpu="8")
        await there.job("a", phase="Created", **sized(0))
        await there.shown("a")
        for policy in ("cfs", "fulfillment", "goodput"):
            status, found = await there.get(f"plan?policy={policy}")
            assert status == 200
            assert [(one["name"], one["target"] >= 1) for one in found["jobs"]] == [("a", True)]
            assert [one["job"] for one in found["coming"]][:1] == ["default/a"]
            assert found["coming"][0]["what"].startswith("starts with ")
        assert (await there.get("plan?policy=lottery"))[0] == 400


def lines(*chunks: bytes) -> Any:
    async def read(request: Request) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return read


async def test_logs_are_bounded_and_harmless() -> None:
    async with world() as there:
        await there.node("n-0")
        job = await there.job("a")
        pod = await there.pod(job, 0, "n-0")
        await there.until(lambda: there.state.usage.by_job, "its pod is known")
        long = b"2026-01-01T00:00:01Z " + b"x" * (1 << 20)
        there.api.log = lines(
            b"2026-01-01T00:00:00Z \x1b[31mred\x1b[0m \x1b]0;title\x07\x07 <b>\n",
            *(long[at : at + 4096] for at in range(0, len(long), 4096)),
            b"\n2026-01-01T00:00:02Z \xff\xfe last",
        )
        status, raw = await there.ask("GET", f"/api/v1/jobs/{KIND}/default/a/pods/{pod}/log")
        assert status == 200
        batches = [msgspec.json.decode(line, type=types.LogLines) for line in raw.splitlines()]
        texts = [text for batch in batches for _, text in batch.lines]
        assert texts[0] == "red \\x07 <b>"
        assert len(texts[1]) <= LINE + 2
        assert texts[2].endswith(" last")
        assert batches[-1].cut > (1 << 20) - 2 * LINE
        assert (await there.get(f"jobs/{KIND}/default/a/pods/other/log"))[0] == 404


async def test_actions_need_to_be_switched_on() -> None:
    async with world() as there:
        await there.job("a")
        await there.shown("a")
        status, found = await there.ask("POST", f"/api/v1/jobs/{KIND}/default/a/size", body={"size": 3})
        assert (status, found["code"]) == (403, "read-only")


async def test_a_viewer_scales_pauses_and_deletes_with_their_own_client() -> None:
    async with world(WebSettings(actions=True)) as there:
        await there.job("a")
        await there.shown("a")
        place = f"/api/v1/jobs/{KIND}/default/a"
        assert (await there.ask("POST", f"{place}/size", body={"size": 99}))[0] == 400
        assert (await there.ask("POST", f"{place}/size", body={"size": 3}))[0] == 200
        assert (await there.ask("POST", f"{place}/pause", body={"paused": True}))[0] == 200
        found = await there.client.get(JOBS, "a", namespace="default")
        assert found["spec"]["trainer"]["replicas"] == 3
        assert found["metadata"]["annotations"]["edl.dev/pause"] == "true"
        assert (await there.ask("DELETE", place))[0] == 200
        await there.until(lambda: not len(there.state.jobs), "it is gone")
        assert (await there.ask("DELETE", place))[0] == 404


async def test_another_job_of_the_name_is_left_alone() -> None:
    async with world(WebSettings(actions=True)) as there:
        await there.job("a")
        await there.shown("a")
        await there.until(lambda: there.state.jobs.get(f"{KIND}/default/a").now == 2, "its status")  # type: ignore[union-attr]
        row = there.state.jobs.get(f"{KIND}/default/a")
        assert row is not None
        there.state.jobs.put(msgspec.structs.replace(row, uid="of-an-earlier-one"))
        for method, more, body in (("DELETE", "", None), ("POST", "/size", {"size": 3})):
            status, found = await there.ask(method, f"/api/v1/jobs/{KIND}/default/a{more}", body=body)
            assert (status, found["code"]) == (409, "bad-request")
        assert (await there.client.get(JOBS, "a", namespace="default"))["metadata"]["name"] == "a"


async def test_the_document_names_every_call() -> None:
    async with world() as there:
        status, found = await there.ask("GET", "/openapi.json", token="")
        assert status == 200
        assert found == msgspec.json.decode(msgspec.json.encode(document()))
        named = {(method, path) for method, path, *_ in CALLS}
        assert {(method, path) for path in found["paths"] for method in found["paths"][path]} - {
            (method, path) for method, path in named
        } == {("parameters", path) for path in found["paths"]}
