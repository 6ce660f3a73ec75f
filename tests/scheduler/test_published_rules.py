"""The rules of the published simulator, on tables small enough to work out by hand, and its refusals."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.pollux.__main__ import main
from bench.pollux.job import SimulatedJob
from bench.pollux.optimus import Optimus
from bench.pollux.report import against_published, completion_times, percentile
from bench.pollux.shipping import Shipping
from bench.pollux.simulator import Scheduler, Simulator
from bench.pollux.tables import EPOCHS, BadTableError, read_applications, read_published, read_workloads
from bench.pollux.tiresias import Tiresias

WORKLOAD = "load,workload,name,time,application,num_replicas,batch_size\n"
KEYS = "load workload policy jobs avg_jct p50 p90 p99 makespan restarts gpu_hours decision_ms_mean decision_ms_max"
STEP, PROGRESS = 0.5, 10  # seconds of a step on one GPU, and steps of an epoch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six applications that scale perfectly up to 16 GPUs: half the step for twice the GPUs."""
    placements, scalability, validation = [], [], []
    for name, epochs in EPOCHS.items():
        for shape in ["1", "2", "3", "4", "11", "12", "13", "14", "22", "23", "24", "33", "34", "44", "444", "4444"]:
            gpus = sum(map(int, shape))
            placements += [f"{name},{shape},{batch},{STEP / gpus},0.0" for batch in (1, 8, 32768)]
        scalability.append(f"{name},16,64,8,{STEP / 64},0.0")
        for batch in (8, 32768):
            steps = [PROGRESS * (epoch + 1) for epoch in range(epochs)]
            validation += [f"{name},{batch},{step},{step},1.0,0.0" for step in steps]
    write = {
        "pollux_placements.csv": ("application,placement,local_bsz,step_time,sync_time", placements),
        "pollux_scalability.csv": ("application,num_nodes,num_replicas,local_bsz,step_time,sync_time", scalability),
        "pollux_validation.csv": ("application,batch_size,progress,iteration,grad_sqr,grad_var", validation),
    }
    for file, (header, rows) in write.items():
        (tmp_path / file).write_text("\n".join([header, *rows]) + "\n")
    return tmp_path


def run(folder: Path, rows: str, scheduler: Scheduler) -> dict[str, int]:
    (folder / "jobs.csv").write_text(WORKLOAD + rows)
    applications = read_applications(folder)
    submissions = read_workloads(folder / "jobs.csv", applications)
    jobs = [SimulatedJob(one, applications[one.application], batch_size=None) for one in submissions]
    scheduler.submit(jobs)
    simulator = Simulator(jobs, scheduler)
    simulator.run()
    return completion_times(simulator)


def test_a_job_waits_for_the_tick_then_pauses_then_trains(folder: Path) -> None:
    # submitted at 10, started at 60, paused to 90; ten epochs of 10 steps of 0.5 s
    assert run(folder, "1.0,1,a,10,ncf,1,8\n", Tiresias()) == {"a": 60 + 30 + 50 - 10}


def test_tiresias_starts_in_order_whoever_fits(folder: Path) -> None:
    rows = "".join(f"1.0,1,{name},0,cifar10,16,32768\n" for name in "abcde")
    times = run(folder, rows, Tiresias())
    # an epoch is 10 steps of 0.5 s / 16 and ends at whole seconds, at the least 0: one is over at once
    assert times["a"] == times["b"] == times["c"] == times["d"] < times["e"]


def test_optimus_gives_gpus_to_whom_they_help_most(folder: Path) -> None:
    """Both scale alike; one has fifty times the steps left, and takes the rest of the cluster."""
    rows = "1.0,1,long,0,imagenet,1,8\n1.0,1,short,0,bert,1,8\n"
    assert run(folder, rows, Optimus())["long"] < 90 * 5 + 120


@pytest.mark.parametrize("policy", ["cfs", "fulfillment", "goodput", "goodput+remaining"])
def test_shipping_policies_finish_every_job(folder: Path, policy: str) -> None:
    rows = "".join(f"1.0,1,job-{number},{40 * number},bert,1,32768\n" for number in range(6))
    times = run(folder, rows + "1.0,1,tiny,7,ncf,1,32768\n", Shipping(policy))
    assert len(times) == 7
    assert all(time > 0 for time in times.values())


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("1.0,1,a,x,ncf,1,8\n", "jobs.csv:2: time 'x': wants a whole number"),
        ("1.0,1,a,-5,ncf,1,8\n", "jobs.csv:2: time '-5': wants at least 0"),
        ("1.0,1,a,0,ncf,1,8\n1.0,1,a,0,ncf,1,8\n", "jobs.csv:3: name 'a': wants a name of its own"),
        ("1.0,1,a,0,gpt,1,8\n", "jobs.csv:2: application 'gpt': wants one of the tables': bert, cifar10"),
        ("1.0,1,a,0,ncf,1,7\n", "jobs.csv:2: batch_size '7': wants 8 to 32768"),
        ("1.0,1,a,0,ncf,65,8\n", "jobs.csv:2: num_replicas '65': wants at most 64"),
        ("1.0,1,a,0,ncf,1\n", "jobs.csv:2: 6 values for 7 columns"),
        ("1.0,1,,0,ncf,1,8\n", "jobs.csv:2: name '': wants a value"),
    ],
)
def test_bad_rows_are_refused_with_their_line(folder: Path, rows: str, said: str) -> None:
    with pytest.raises(BadTableError) as error:
        run(folder, rows, Tiresias())
    assert said in str(error.value)


def test_a_file_without_its_columns_is_refused(folder: Path) -> None:
    (folder / "jobs.csv").write_text("time;name\n")
    with pytest.raises(BadTableError, match=r"jobs.csv:1: no column load, workload, name"):
        read_workloads(folder / "jobs.csv", read_applications(folder))
    with pytest.raises(BadTableError, match=r"nothing\.csv"):
        read_published(folder / "nothing.csv")


def test_published_times_are_compared_job_by_job(folder: Path) -> None:
    (folder / "published.csv").write_text("experiment,variant,workload,name,jct_s\nx,tiresias-1.0,1,a,130\n")
    published = read_published(folder / "published.csv")["tiresias", "1.0", 1]
    assert against_published({"a": 130}, published) == "all 1 jobs as published"
    assert "a differs most: 131 s, published 130 s" in against_published({"a": 131}, published)
    assert against_published({"b": 1}, published) == "the published jobs are others"


def test_percentiles_lie_between_the_nearest() -> None:
    assert [percentile([0, 10, 20], percent) for percent in (0, 25, 50, 99, 100)] == [0, 5, 10, 19.8, 20]


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bench.pollux", *words])
    return main()


def test_the_command_prints_one_object_per_workload_and_policy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "jobs.csv").write_text(WORKLOAD + "1.0,1,a,10,ncf,1,8\n1.0,2,a,10,ncf,1,8\n0.5,1,b,10,ncf,1,8\n")
    words = "--workloads", str(folder / "jobs.csv")
    assert command(monkeypatch, *words, "--policy", "tiresias,goodput", "-o", "json") == 0
    runs: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [(one["policy"], one["workload"], one["jobs"]) for one in runs] == [
        ("tiresias", 1, 1),
        ("tiresias", 2, 1),
        ("goodput", 1, 1),
        ("goodput", 2, 1),
    ]
    assert " ".join(runs[0]) == KEYS
    assert runs[0]["avg_jct"] == 130
    assert command(monkeypatch, *words, "--policy", "best") == 2
    assert "there is no 'best'; known: cfs" in capsys.readouterr().err
    assert command(monkeypatch, *words, "--load", "3") == 2
    assert "has 0.5, 1.0" in capsys.readouterr().err
