"""`edl simulate`: the shipping plan on virtual time, over traces that are right, and refusals of those that are not."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from edl.cli.main import main
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.engine import Run
from edl.scheduler.simulation.figures import figures
from edl.scheduler.simulation.trace import ForeignLoad, NodeChange, Trace, TraceJob

HEAD = "submit_s,duration_s,num_gpus\n"


def simulated(
    jobs: list[TraceJob], nodes: int = 2, policy: str = "cfs", changes: tuple[NodeChange, ...] = (), **more: Any
) -> Run:
    trace = Trace(tuple(jobs), tuple(f"node-{number}" for number in range(nodes)), 4, changes)
    run = Run(trace, Settings(policy=policy, max_load="1"), declares=more.get("declares", False), clock=lambda: 0.0)
    run.run()
    return run


def job(name: str, submit: float = 0.0, duration: float = 100.0, **more: Any) -> TraceJob:
    return TraceJob(**{"name": name, "submit": submit, "duration": duration, "size": 1, "max": 1, **more})


def test_a_job_alone_takes_its_pause_and_its_duration() -> None:
    run = simulated([job("a", submit=5.0, pause=30.0)])
    assert run.jobs[0].ended == 5 + 30 + 100
    found = figures(run)
    assert (found.avg_jct, found.makespan, found.avg_wait, found.changes) == (130.0, 130.0, 0.0, 0)
    assert found.gpu_hours_lost == pytest.approx(30 / 3600)


def test_work_is_done_faster_by_more_instances() -> None:
    run = simulated([job("a", duration=800.0, max=8, scaling=1.0, pause=0.0)])
    assert run.jobs[0].ended == pytest.approx(100.0)


def test_a_job_waits_until_another_ends() -> None:
    run = simulated([job("a", size=8, min=8, max=8), job("b", submit=1.0, size=8, min=8, max=8)])
    first, second = run.jobs
    assert second.started == first.ended
    assert figures(run).avg_wait == pytest.approx(((first.ended or 0) - 1) / 2)


def test_a_lost_node_takes_its_instances_and_they_are_placed_again() -> None:
    lost = (NodeChange(50.0, ("node-0",), False), NodeChange(60.0, ("node-2",), True))
    run = simulated([job("a", size=8, min=8, max=8, pause=10.0)], changes=lost)
    assert set(run.jobs[0].pods) == set()
    # 40 s of its work were done by then; it runs again when the new node is there
    assert run.jobs[0].ended == pytest.approx(60 + 10 + 60)


@pytest.mark.parametrize("policy", ["cfs", "fulfillment", "goodput"])
@pytest.mark.parametrize("declares", [False, True])
def test_the_same_trace_gives_the_same_run_and_everybody_ends(policy: str, declares: bool) -> None:
    jobs = [job(f"j{number}", 37.0 * number, 200.0 + 31 * number, size=2, max=1 + number % 6) for number in range(12)]
    runs = [figures(simulated(jobs, policy=policy, declares=declares)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert 0 < runs[0].utilisation <= 1
    assert 0 < runs[0].fairness_jain <= 1


def written(folder: Path, text: str, name: str = "jobs.csv") -> str:
    (folder / name).write_bytes(text.encode())
    return str(folder / name)


def test_it_prints_a_table_and_a_drawing_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, HEAD + "100,60,2\n0,60,4\n")
    assert main(["simulate", "--jobs", path, "--nodes", "1", "--policy", "cfs,goodput"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split()[:4] == ["POLICY", "JOBS", "AVG", "P50"]
    assert "goodput: GPUs in use over time" in out
    assert main(["simulate", "--jobs", path, "-o", "json", "--set", "max_load=0.9"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["policy"], found["jobs"], found["avg_wait"]) == ("cfs", 2, 0.0)


@pytest.mark.parametrize("text", [HEAD.replace(",", ";") + "0;60;1\n", HEAD.replace(",", "\t") + "0\t60\t1\r\n"])
def test_other_delimiters_and_line_ends_are_understood(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--jobs", written(tmp_path, text), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["jobs"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("submit_s,duration_s\n", "jobs.csv:1: no column num_gpus"),
        (HEAD.replace("num_gpus", "num_gpus,colour") + "0,1,1,red\n", "jobs.csv:1: unknown column 'colour'"),
        (HEAD, "no jobs"),
        (HEAD + "0,60\n", "jobs.csv:2: 2 values for 3 columns"),
        (HEAD + "0,,1\n", "jobs.csv:2: duration_s '': wants a number"),
        (HEAD + "0,60,1\n-5,60,1\n", "jobs.csv:3: submit_s '-5': wants a finite number, 0 or more"),
        (HEAD + "0,inf,1\n", "jobs.csv:2: duration_s 'inf'"),
        (HEAD + "0,60,1.5\n", "jobs.csv:2: num_gpus '1.5': wants a whole number"),
        (HEAD.strip() + ",min\n0,60,1,99\n", "jobs.csv:2: min '99': wants at most 64, what the cluster has"),
        (HEAD.strip() + ",min,max\n0,60,1,5,4\n", "jobs.csv:2: min '5': wants at most its maximum, 4"),
        (HEAD.strip() + ",name\n0,60,1,a\n0,60,1,a\n", "jobs.csv:3: name 'a': wants a name of its own"),
        (HEAD.strip() + ",scaling\n0,60,1,2\n", "jobs.csv:2: scaling '2': wants a number above 0 and up to 1"),
    ],
)
def test_bad_traces_are_refused_with_their_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--jobs", written(tmp_path, text)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "best"], "there is no scheduling policy 'best'"),
        (["--set", "colour=red"], "--set colour=red: wants KEY=VALUE with one of max_load"),
        (["--set", "max_load=2"], "max load '2'"),
        (["--nodes", "0"], "--nodes 0: wants 1 to"),
    ],
)
def test_bad_options_are_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--jobs", written(tmp_path, HEAD + "0,60,1\n"), *words]) == 1
    assert said in capsys.readouterr().err


def test_nodes_of_a_trace_come_and_go_by_regime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = written(tmp_path, HEAD + "0,100,4\n")
    rows = "regime,t_s,event,nodes\nx,0,add,n1 n2\nx,50,remove,n1\nx,90,end,\ny,0,add,n1\n"
    nodes = written(tmp_path, rows, "nodes.csv")
    words = ["simulate", "--jobs", jobs, "--node-changes", nodes]
    assert main(words) == 1
    assert "choose one with --regime x|y" in capsys.readouterr().err
    assert main([*words, "--regime", "z"]) == 1
    assert "nodes.csv has x, y" in capsys.readouterr().err
    assert main([*words, "--regime", "x", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["jobs"] == 1


def test_pods_of_others_come_first_and_give_back_what_they_took() -> None:
    """Six of eight GPUs from 100 s to 200 s, in which the job goes on with two."""
    trace = Trace(
        (job("a", duration=2400.0, max=8, scaling=1.0, pause=0.0),),
        ("node-0", "node-1"),
        4,
        foreign=(ForeignLoad(100.0, 6), ForeignLoad(200.0, 0)),
    )
    run = Run(trace, Settings(max_load="1"), declares=False, clock=lambda: 0.0)
    run.run()
    # 800 s of its work by 100 s, 200 s by 200 s, the rest by eight, but for the freezing window of 30 s
    assert run.jobs[0].ended == pytest.approx(200 + 1400 / 8, abs=30)
    sizes = {time: used for time, used, _ in run.used}
    assert sizes[100.0] == 2


def test_a_speed_may_be_a_curve() -> None:
    curved = job("a", duration=100.0, max=8, pause=0.0, curve=((1, 10.0), (2, 15.0), (8, 15.0)))
    assert [curved.speed(size) for size in (0, 1, 2, 4, 9)] == [0.0, 10.0, 15.0, 15.0, 15.0]
    run = simulated([curved], declares=True, policy="goodput")
    assert run.jobs[0].ended == pytest.approx(1000.0 / 15.0, rel=0.01)


def test_starts_are_foretold_and_the_error_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.csv"
    rows = "".join(f"{number},{300 + 10 * number},4\n" for number in range(8))
    file.write_text(HEAD + rows)
    command = ["simulate", "--jobs", str(file), "--nodes", "1", "--declare-work", "--foretell", "--set", "max_load=1"]
    assert main([*command, "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["foretold"]["forecasts"] + found["foretold"]["unknown"] >= 1
    assert main(command) == 0
    assert "starts foretold" in capsys.readouterr().out


def test_charts_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(HEAD + "0,100,1\n5,100,2\n")
    for chart in ("chart.svg", "chart.html"):
        path = str(tmp_path / chart)
        assert main(["simulate", "--jobs", str(file), "--policy", "cfs,goodput", "--chart", path]) == 0
        drawn = Path(path).read_text()
        ElementTree.fromstring(drawn[drawn.index("<svg") :])
        assert drawn.count("<polyline") == 4
    assert "share of jobs done" in capsys.readouterr().out
    assert main(["simulate", "--jobs", str(file), "--chart", "x.png"]) == 1
    assert "--chart x.png" in capsys.readouterr().err


MANIFEST = """
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {name: NAME}
spec:
  minReplicas: 1
  maxReplicas: 4
  replicaSpecs:
    Worker:
      template:
        spec:
          containers: [{name: worker, image: x, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


def test_jobs_may_be_manifests_or_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("---".join(MANIFEST.replace("NAME", name) for name in "abc"))
    command = ["simulate", "-f", str(file), "--nodes", "1", "--gpu", "4", "--policy", "cfs,goodput", "-o", "json"]
    assert main([*command, "--takes", "1h"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["policy"], one["jobs"], one["ended"]) for one in found] == [("cfs", 3, 3), ("goodput", 3, 3)]
    assert all(1000 < one["avg_completion"] <= 3700 for one in found)
    assert main(command) == 0
    assert [one["ended"] for one in json.loads(capsys.readouterr().out)] == [0, 0]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ([], "name what to simulate"),
        (["--jobs", "a.csv", "--live"], "name what to simulate"),
        (["-f", "nowhere.yaml"], "nowhere.yaml"),
        (["--jobs", "a.csv", "--work-error", "9"], "--work-error"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    options: list[str], wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *options]) == 1
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("t_s,gpus\n0,-1\n", ":2: gpus '-1'"),
        ("t_s,gpus\n0,1.5\n", ":2: gpus '1.5'"),
        ("t_s,gpus\nsoon,1\n", ":2: t_s 'soon'"),
        ("when,gpus\n0,1\n", ":1: no column t_s"),
    ],
)
def test_a_bad_foreign_load_is_refused_with_its_line(
    text: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, foreign = tmp_path / "jobs.csv", tmp_path / "foreign.csv"
    jobs.write_text(HEAD + "0,100,1\n")
    foreign.write_text(text)
    assert main(["simulate", "--jobs", str(jobs), "--foreign", str(foreign)]) == 1
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize("curve", ["1", "1:x", "0:5", "1:-3", "1:nan", "1:inf", "a:b"])
def test_a_bad_curve_is_refused_with_its_line(curve: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(f"submit_s,duration_s,num_gpus,curve\n0,100,1,{curve}\n")
    assert main(["simulate", "--jobs", str(file)]) == 1
    assert ":2: curve" in capsys.readouterr().err
