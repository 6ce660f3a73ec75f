"""Metrics and log lines of an operator while jobs wait, run, and report their progress."""

import asyncio
import base64
import io
import json
import logging
import re
import ssl
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from edl.kube.controllers.controller import current
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import DirectTransport, Request, Response
from edl.operator.logs import configure_logging
from edl.operator.metrics.jobs import catalogue
from edl.operator.metrics.requests import MeteredTransport, resource_in
from edl.operator.resources import SECRETS
from edl.operator.settings import ServiceSettings
from tests.operator.stage import Stage, stage
from tests.operator.test_command import answer
from tests.ports import free_port

DOCS = Path(__file__).parents[3] / "docs"
Samples = dict[tuple[str, ...], float]


class Shown:
    """One scrape of /metrics: families by name, samples by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, *sorted(f"{key}={value}" for key, value in sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def of(self, name: str, job: str = "j") -> float | None:
        return self.samples.get((name, "kind=tj", f"name={job}", "namespace=default"))


async def shown(port: int) -> Shown:
    return Shown((await answer(f"http://127.0.0.1:{port}/metrics"))[1])


async def test_jobs_cycles_queues_and_calls_are_counted() -> None:
    port = free_port()
    async with stage(cpu="4") as scene, scene.operator(probes=("127.0.0.1", port)):
        await scene.submit(master=None, pserver=None)
        await scene.submit("big", master=None, pserver=None, trainer={"min-instance": 9, "max-instance": 9})
        await scene.until_phase("running")
        await scene.until_condition("Queued", name="big")

        async def seen() -> Shown | None:
            found = await shown(port)
            return found if found.of("edl_job_size") == 2 and found.of("edl_job_wait_seconds", "big") else None

        metrics = await scene.until(seen, "the gauges follow the caches")
    assert (metrics.of("edl_job_target"), metrics.of("edl_job_target", "big")) == (2, 0)
    assert metrics.of("edl_job_wait_seconds") is None, "it does not wait"
    phases = ("kind=tj", "namespace=default")
    assert metrics.samples["edl_jobs", *phases, "phase=running"] == 1
    assert metrics.samples["edl_jobs", *phases, "phase=creating"] == 1
    assert metrics.samples["edl_scale_events_total", "direction=up", "namespace=default"] == 1
    assert metrics.samples["edl_job_waited_seconds_count",] == 1, "one was admitted"
    assert metrics.samples["edl_cycle_seconds_count",] >= 1
    assert metrics.samples["edl_cluster_capacity", "resource=cpu"] == 4
    assert metrics.samples["edl_cluster_planned", "resource=cpu"] == 2
    assert metrics.samples["edl_api_calls_total", "code=201", "method=POST", "resource=pods"] == 2
    assert metrics.samples["edl_api_seconds_count", "method=POST"] >= 2
    assert metrics.samples["edl_api_calls_total", "code=200", "method=WATCH", "resource=pods"] >= 1


async def test_reports_of_progress_become_gauges() -> None:
    port = free_port()
    service = ServiceSettings(host="127.0.0.1", port=free_port(), url="https://127.0.0.1:{port}")
    async with stage() as scene, scene.operator(probes=("127.0.0.1", port), service=service):
        await scene.submit(master=None, pserver=None)
        await scene.until_phase("running")
        assert (await shown(port)).of("edl_job_goodput") is None, "nobody has said anything yet"
        await report(scene, service.port, {"throughput": 420.5, "done": 3, "total": 12, "pause": 1.5})
        metrics = await shown(port)
    assert metrics.of("edl_job_goodput") == 420.5
    assert metrics.of("edl_job_done_ratio") == 0.25
    assert metrics.of("edl_job_rescale_pause_seconds") == 1.5


async def report(scene: Stage, port: int, progress: dict[str, float]) -> None:
    (secret,) = (await scene.client.list(SECRETS, namespace="default", labels={"edl.dev/job": "j"})).items
    token = base64.b64decode(secret["data"]["EDL_JOB_TOKEN"]).decode()
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{port}/v1/jobs/default/j/progress"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=progress, headers={"Authorization": f"Bearer {token}"}, ssl=unchecked) as answered,
    ):
        assert answered.status == 200, await answered.text()


async def test_every_metric_is_in_the_docs_and_every_one_in_the_docs_is_there() -> None:
    port = free_port()
    async with stage() as scene, scene.operator(probes=("127.0.0.1", port)):
        await scene.submit(master=None, pserver=None)
        await scene.until_phase("running")
        families = {
            name: family for name, family in (await shown(port)).families.items() if not name.endswith("_created")
        }
        there = set(families)
    documented = set(
        re.findall(r"`(edl_\w+?)(?:_total)?(?:\{[^}]*\})?`", (DOCS / "reference" / "metrics.md").read_text())
    )
    assert there == documented
    assert {(one.type, one.name, one.help) for one in catalogue()} == {
        (family.type, name, family.documentation) for name, family in families.items()
    }
    labels = {one.name: set(one.labels) for one in catalogue()}
    for name, family in families.items():
        assert all(set(sample.labels) - {"le"} == labels[name] for sample in family.samples), name


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/a/pods/p/status", "pods/status"),
        ("/api/v1/pods", "pods"),
        ("/api/v1/nodes/n", "nodes"),
        ("/api/v1/namespaces/a", "namespaces"),
        ("/apis/batch/v1/namespaces/a/jobs/j", "jobs"),
        ("/apis/paddlepaddle.org/v1/trainingjobs", "trainingjobs"),
        ("/version", "version"),
    ],
)
def test_a_call_is_counted_by_what_it_is_about(path: str, resource: str) -> None:
    assert resource_in(path) == resource


async def test_calls_without_an_answer_are_counted_too() -> None:
    async def broken(request: Request) -> Response:
        raise ConnectionLostError("gone")

    transport = MeteredTransport(DirectTransport(broken))
    with pytest.raises(ConnectionLostError):
        await transport.request(Request("GET", "/api/v1/nodes"))
    with pytest.raises(ConnectionLostError):
        async with transport.stream(Request("GET", "/api/v1/pods")):
            pass
    assert transport.calls == {("GET", "nodes", "lost"): 1, ("WATCH", "pods", "lost"): 1}


@pytest.fixture
def log_text() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _root_logger() -> object:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    current.set(None)


def test_a_json_line_names_the_job_that_it_is_about(log_text: io.StringIO) -> None:
    configure_logging("json", stream=log_text)
    log = logging.getLogger("edl.test")
    log.info("starts")
    current.set(("trainingjobs.paddlepaddle.org", "ml", "fit"))
    try:
        raise ValueError("no such thing")
    except ValueError:
        log.exception("went wrong: %s", "café")
    first, second = map(json.loads, log_text.getvalue().splitlines())
    assert (first["message"], first["level"]) == ("starts", "info")
    assert "job" not in first
    assert (second["job"], second["kind"]) == ("ml/fit", "trainingjobs.paddlepaddle.org")
    assert second["message"] == "went wrong: café"
    assert "ValueError: no such thing" in second["error"]


def test_a_line_of_text_names_it_once(log_text: io.StringIO) -> None:
    configure_logging("text", stream=log_text)
    current.set(("trainingjobs.paddlepaddle.org", "ml", "fit"))
    logging.getLogger("edl.test").info("the server is slow")
    logging.getLogger("edl.test").info("ml/fit: Running: 2 trainers run")
    assert [line.partition("edl.test: ")[2] for line in log_text.getvalue().splitlines()] == [
        "ml/fit: the server is slow",
        "ml/fit: Running: 2 trainers run",
    ]


async def test_lines_logged_during_a_reconcile_name_its_job(log_text: io.StringIO) -> None:
    configure_logging("json", stream=log_text)
    async with stage() as scene, scene.operator():
        await scene.submit(master=None, pserver=None)
        await scene.until_phase("running")
        await asyncio.sleep(0)
    lines = [json.loads(line) for line in log_text.getvalue().splitlines()]
    running = [line for line in lines if "Running:" in line["message"]]
    assert [line["job"] for line in running] == ["default/j"]
    assert all("job" not in line for line in lines if line["message"].startswith("cycle:"))
