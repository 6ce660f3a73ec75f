"""Rows, sums and series: right after every change, and bounded."""

from collections import deque
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from edl.api.kubernetes.core import Pod, convert
from edl.web.model.job_table import JobTable
from edl.web.model.samples import JobSeries, Point
from edl.web.model.usage import NOTHING, Usage
from edl.web.types import JobRow, Jobs
from tests.web.world import KIND


def row(name: str, namespace: str = "n", reason: str = "") -> JobRow:
    given = dict.fromkeys(JobRow.__struct_fields__, None) | {"key": f"{KIND}/{namespace}/{name}", "kind": KIND}
    text = dict.fromkeys(("uid", "state", "phase", "code", "progress", "eta", "priority"), "")
    return msgspec.convert(given | text | {"namespace": namespace, "name": name, "reason": reason}, JobRow)


def heard(table: JobTable, since: int | None, known: dict[str, JobRow], namespaces: set[str]) -> None:
    message = table.message(since, lambda kind, namespace: namespace in namespaces)
    if message is None:
        return
    change = msgspec.json.decode(message, type=Jobs)
    if change.reset:
        known.clear()
    known.update({one.key: one for one in change.rows})
    for key in change.gone:
        known.pop(key, None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(["red", "blue"]), st.sampled_from(["x", "y", None]), st.booleans()
    ),
    max_size=40,
)


@given(steps=STEPS, few=st.booleans())
def test_who_hears_every_change_knows_what_the_board_knows(steps: list[Any], few: bool) -> None:
    """Whenever they listen, with few rights or all, and though the table forgets who went long ago."""
    table, seen, since = JobTable(), dict[str, JobRow](), None
    if few:
        table._gone = deque(maxlen=2)
    sees = {"red"}
    for name, namespace, reason, listens in steps:
        if reason is None:
            table.drop(f"{KIND}/{namespace}/{name}")
        else:
            table.put(row(name, namespace, reason))
        if listens:
            heard(table, since, seen, sees)
            since = table.version
    heard(table, since, seen, sees)
    assert seen == {one.key: one for one in table.rows() if one.namespace in sees}


def test_what_did_not_change_is_no_message() -> None:
    table = JobTable()
    assert table.put(row("a"))
    assert not table.put(row("a"))
    assert table.message(table.version, lambda kind, namespace: True) is None


PODS = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(["n-0", "n-1", ""]), st.integers(0, 4), st.sampled_from("ab-")),
    max_size=30,
)


@given(changes=PODS)
def test_sums_are_those_of_the_pods_that_are_there(changes: list[Any]) -> None:
    usage, there = Usage(), dict[str, Any]()
    for name, node, cpu, job in changes:
        labels = {"edl.dev/job": job, "edl.dev/kind": KIND, "edl.dev/job-uid": "u"} if job != "-" else {}
        body = {
            "metadata": {"name": name, "namespace": "n", "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]},
        }
        gone = cpu == 4
        there.pop(name, None)
        if not gone:
            there[name] = node, cpu, job
        usage.set(("n", name), None if gone else convert(body, Pod))
    for node in ("n-0", "n-1"):
        for ours in (True, False):
            held = sum(cpu for at, cpu, job in there.values() if at == node and (job != "-") == ours)
            assert usage.on(node, ours=ours)[0] == held
    for job in "ab":
        held = sum(cpu for at, cpu, of in there.values() if of == job and at)
        assert usage.by_job.get(f"{KIND}/n/{job}", NOTHING)[0] == held


def point(time: float, now: int = 1, loss: float | None = None) -> Point:
    return Point(time, now, now, loss, None)


def test_a_long_series_stays_bounded_and_keeps_every_late_point_and_change_of_size() -> None:
    series = JobSeries(per_job=100, in_all=1000)
    for second in range(5000):
        series.add("a", point(second, now=2 if second >= 50 else 1, loss=1 / (second + 1)))
    points = series.of("a")
    assert len(points) <= 101
    assert [one.time for one in points] == sorted(one.time for one in points)
    assert points[-1].time == 4999
    assert (points[0].now, 50.0 in [one.time for one in points]) == (1, True)


def test_points_are_given_back_as_they_were() -> None:
    series = JobSeries()
    given = [Point(1.5, None, None, None, None), Point(2.5, 0, 3, -0.25, None), Point(3.5, 4, None, None, 1e9)]
    assert [series.add("a", one) for one in given] == [True, True, True]
    assert not series.add("a", given[-1]._replace(time=4.5)), "nothing new"
    assert series.of("a") == given


def test_all_series_together_are_bounded() -> None:
    series = JobSeries(per_job=10, in_all=100)
    for job in range(500):
        for second in range(10):
            series.add(str(job), point(second, loss=second))
    assert len(series) <= 100
    assert len(series.of("499")) == 10
    assert series.of("0") == []


def test_the_same_again_is_no_point() -> None:
    series = JobSeries()
    assert series.add("a", point(1))
    assert not series.add("a", point(2))
    assert len(series.of("a")) == 1
