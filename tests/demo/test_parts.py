"""The parts of the demonstration that need no cluster: what is written down, counted and drawn."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from edl.cli.connect.jobs import summarize
from edl.cli.main import main
from edl.cli.output.live import JobSnapshot
from edl.demo.chart import chart
from edl.demo.cluster import DemoCluster
from edl.demo.recording import Moment, Recording, moment
from edl.demo.svg import draw
from edl.demo.task_counts import count_tasks
from edl.demo.workloads import QUICK, SLOW, Pace, examples, jobs
from edl.jobs.registry import TRAINING_JOB

TRAINER = {"edl.dev/job": "a", "edl.dev/role": "trainer"}


def pod(node: str, labels: dict[str, str], *, phase: str = "Running", cpu: str = "1", leaving: bool = False) -> Any:
    metadata: dict[str, Any] = {"name": "any", "labels": labels}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_a_moment_tells_who_holds_what_and_who_works() -> None:
    seen = moment(
        1.0,
        [
            pod("n0", TRAINER),
            pod("n0", TRAINER, leaving=True),
            pod("n1", TRAINER, phase="Succeeded"),
            pod("", TRAINER, phase="Pending"),
            pod("n1", {**TRAINER, "edl.dev/role": "master"}, cpu="100m"),
            pod("n1", {"app": "shop"}, cpu="2"),
        ],
        {},
    )
    assert {node: dict(held) for node, held in seen.held.items()} == {
        "n0": {"a": 2000},
        "n1": {"a": 100, "shop": 2000},
    }
    assert seen.sizes == {"a": 1, "shop": 1}, "one that leaves holds its core but works no more"
    assert (seen.cores("a"), seen.cores("shop"), seen.cores("nobody")) == (2, 2, 0)


def recorded() -> Recording:
    recording = Recording(nodes=2, node_cores=2, holders=["a", "b<"])
    sizes = [(0.0, 0, 0), (1.0, 3, 0), (2.0, 3, 1), (3.0, 1, 2), (4.0, 0, 2)]
    for at, first, second in sizes:
        held = {"n0": {"a": first * 1000, "b<": second * 1000}}
        recording.moments.append(Moment(at, held, losses={"a": 10.0 / (1 + at)} if at else {}))
    recording.note(0.5, "user", "it begins & runs")
    recording.note(1.0, "decision", "size 0 -> 3", "a")
    recording.note(2.5, "fault", "kill -9")
    return recording


def test_only_what_people_did_is_marked() -> None:
    assert [(event.mark, event.text) for event in recorded().marks] == [(1, "it begins & runs"), (2, "kill -9")]


def test_the_chart_stacks_a_letter_per_core_and_holder() -> None:
    lines = chart(recorded(), width=4, color=False).plain.splitlines()
    assert [line[4:] for line in lines[:4]] == [".B..", "AAB.", "AABB", "AAAB"]
    assert "①" in lines[4]
    assert "A a" in lines[-1]


def test_the_picture_is_an_svg_that_holds_every_mark_and_loss() -> None:
    root = ElementTree.fromstring(draw(recorded()))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "it begins & runs" in texts
    assert "b<" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polygon"))) == 2
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 1


def test_the_last_losses_stand_apart_and_say_whose_they_are() -> None:
    recording = recorded()
    recording.moments.append(Moment(5.0, {}, losses={"a": 0.5, "b<": 0.25}))
    root = ElementTree.fromstring(draw(recording))
    labels = [
        (float(element.get("x", "0")), float(element.get("y", "0")), element.text)
        for element in root.iter("{http://www.w3.org/2000/svg}text")
        if element.text in ("a 0.5", "b< 0.25")
    ]
    assert len(labels) == 2
    assert abs(labels[0][1] - labels[1][1]) >= 12, labels


def test_an_empty_recording_can_be_drawn() -> None:
    nothing = Recording(nodes=1, node_cores=1)
    assert chart(nothing, width=10).plain
    ElementTree.fromstring(draw(nothing))


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text(
        "".join(json.dumps({"pid": 1, "era": 0, "pass": 0, "counted": True, **line}) + "\n" for line in lines)
    )
    return path


TRAINED, DONE = {"kind": "trained"}, {"kind": "acknowledged"}


@pytest.mark.parametrize(
    ("lines", "killed", "expected", "good"),
    [
        (
            [TRAINED | {"chunk": 0}, DONE | {"chunk": 0}, TRAINED | {"chunk": 1}, DONE | {"chunk": 1}],
            (),
            (2, 0, 0, 0),
            True,
        ),
        ([TRAINED | {"chunk": 0}, DONE | {"chunk": 0}], (), (1, 0, 0, 0), False),
        ([DONE | {"chunk": 0}, DONE | {"chunk": 0}, DONE | {"chunk": 1}], (), (2, 1, 0, 0), False),
        ([DONE | {"chunk": 0, "counted": False}, DONE | {"chunk": 0}, DONE | {"chunk": 1}], (), (2, 0, 0, 0), True),
        ([DONE | {"chunk": 0}, TRAINED | {"chunk": 1, "pid": 7}], (7,), (1, 0, 1, 0), True),
        ([DONE | {"chunk": 0}, TRAINED | {"chunk": 1, "pid": 7}], (), (1, 0, 0, 0), False),
        (
            [TRAINED | {"chunk": 1}, TRAINED | {"chunk": 1}, DONE | {"chunk": 0}, DONE | {"chunk": 1}],
            (),
            (2, 0, 0, 1),
            True,
        ),
        ([DONE | {"chunk": 0}, DONE | {"chunk": 0, "era": 1}, DONE | {"chunk": 1}], (), (2, 0, 0, 0), True),
        ([DONE | {"chunk": 0}, DONE | {"chunk": 1}, DONE | {"chunk": 5}], (), (2, 1, 0, 0), False),
    ],
    ids=["all", "one missing", "twice", "not counted", "killed", "lost", "trained again", "rolled back", "unknown"],
)
def test_the_ledger_is_held_against_every_task(
    tmp_path: Path, lines: list[dict[str, Any]], killed: tuple[int, ...], expected: tuple[int, ...], good: bool
) -> None:
    found = count_tasks(write(tmp_path / "ledger", *lines), chunks=2, passes=1, killed=killed)
    assert (found.once, found.twice, found.unwritten, found.again) == expected
    assert found.exactly_once is good


def test_a_ledger_that_was_never_written_is_not_taken_for_success(tmp_path: Path) -> None:
    assert not count_tasks(tmp_path / "absent", chunks=2, passes=1, killed=()).exactly_once


@pytest.mark.parametrize("pace", [SLOW, QUICK])
def test_its_jobs_are_valid(pace: Pace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = examples()
    assert scripts is not None
    for number, manifest in enumerate(jobs(pace, scripts)):
        (tmp_path / f"{number}.json").write_text(json.dumps(manifest))
    assert main(["validate", "-f", str(tmp_path)]) == 0, capsys.readouterr().out


class Blind:
    """A cluster that can no longer be read."""

    client: Any = None


async def test_a_scenario_ends_when_the_cluster_cannot_be_read_any_more() -> None:
    demo = DemoCluster(Blind(), Silent(), cores=1)  # type: ignore[arg-type]  # quacks
    watching = asyncio.create_task(demo.watch())
    with pytest.raises(AttributeError):
        await demo.until(lambda: False, "never")
    await watching


async def test_a_job_may_be_submitted_while_the_others_are_observed() -> None:
    demo = DemoCluster(Empty(), Silent(), cores=1)  # type: ignore[arg-type]  # quacks
    demo._watched = {"a": Adding(demo)}  # type: ignore[dict-item]  # quacks
    await demo._observe()
    assert list(demo._watched) == ["a", "b"]


class Silent:
    def report(self, event: object) -> None:
        pass

    def show(self, recording: object, snapshots: object) -> None:
        pass


class Empty:
    @property
    def client(self) -> "Empty":
        return self

    async def list(self, *args: Any, **more: Any) -> Any:
        return SimpleNamespace(items=[])


class Adding:
    """A job that is observed just when another one is submitted."""

    def __init__(self, demo: DemoCluster) -> None:
        self._demo = demo
        job = summarize(TRAINING_JOB, {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {}})
        self.last = JobSnapshot(job)

    async def refresh(self) -> JobSnapshot:
        self._demo._watched["b"] = self  # type: ignore[assignment]  # quacks
        return self.last
