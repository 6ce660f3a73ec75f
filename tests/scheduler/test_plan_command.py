"""`edl plan`: the forms a snapshot may have, what is printed, exit codes, and that other commands do not pay for it."""

import asyncio
import itertools
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from edl.cli.commands.jobs import plan as plan_command
from edl.cli.main import main
from edl.kube.rest.errors import ApiError, Status
from tests.scheduler.makers import Data, elastic_job, flat, node, planned, pod, running, stamp, training_job
from tests.scheduler.test_measured_jobs import state_of

NOW = ["--now", stamp()]
JOB_KEYS = {"kind", "apiVersion", "namespace", "name", "current", "target", "min", "max", "roles", "reason"}


def objects() -> list[Data]:
    rich = elastic_job("rich", 1, 9, namespace="zoo")
    return flat(
        node("n1", cpu=9, gpu=2),
        running(rich, {"n1": 9}),
        training_job("new", 1, 2, gpu=1),
        pod("web", cpu=2, refused=9),
        {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": "bad"}, "spec": {}},
    )


def listed(values: list[Data]) -> Data:
    return {"apiVersion": "v1", "kind": "List", "items": values}


def written(folder: Path, form: str) -> list[str]:
    """The same objects in the forms that people have them in."""
    values = objects()
    if form == "json list":
        (folder / "all.json").write_text(json.dumps(listed(values)))
        return [str(folder / "all.json")]
    if form == "yaml documents":
        (folder / "all.yaml").write_text(yaml.safe_dump_all(values))
        return [str(folder / "all.yaml")]
    if form == "yaml list":
        (folder / "all.yml").write_text(yaml.safe_dump(listed(values)))
        return [str(folder / "all.yml")]
    if form == "typed lists":
        kinds: dict[tuple[str, str], list[Data]] = {}
        for value in values:
            kinds.setdefault((value.pop("apiVersion"), value.pop("kind")), []).append(value)
        lists = [{"apiVersion": of[0], "kind": f"{of[1]}List", "items": items} for of, items in kinds.items()]
        (folder / "all.json").write_text(json.dumps(lists))
        return [str(folder / "all.json")]
    (folder / "notes.txt").write_text("not a manifest")
    for number, value in enumerate(values):
        (folder / f"{number:02}.{'json' if number % 2 else 'yaml'}").write_text(json.dumps(value))
    if form == "directory":
        return [str(folder)]
    return sorted(str(path) for path in folder.iterdir() if path.suffix != ".txt")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["plan", *words, *NOW, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


FORMS = ["json list", "yaml documents", "yaml list", "typed lists", "directory", "files"]


@pytest.mark.parametrize("form", FORMS)
def test_a_snapshot_may_have_any_form(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "-f", *written(tmp_path, form))
    assert {job["name"]: job["target"] for job in made["jobs"]} == {"bad": 0, "new": 0, "rich": 5}


def test_stdin_is_a_dash(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edl.cli.main", "plan", "-f", "-", "-o", "json", *NOW]
    done = subprocess.run(command, input=json.dumps(listed(objects())), capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["jobs"]) == 3


def test_the_answer_is_the_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the same function: offline as live."""
    made = printed(capsys, "-f", *written(tmp_path, "json list"))
    live = planned(objects())
    assert [(job["name"], job["target"], job["reason"]) for job in made["jobs"]] == [
        (job.name, job.target, job.reason) for job in live.jobs
    ]


def test_json_has_the_fields_it_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "-f", *written(tmp_path, "json list"), "--policy", "fulfillment")
    assert made["policy"] == "fulfillment"
    assert made["now"] == stamp()
    assert [(job["namespace"], job["name"]) for job in made["jobs"]] == [
        ("default", "bad"),
        ("default", "new"),
        ("zoo", "rich"),
    ]
    assert all(set(job) >= JOB_KEYS for job in made["jobs"])
    rich = made["jobs"][2]
    assert rich["kind"] == "ElasticJob"
    assert rich["apiVersion"] == "elastic.pytorch.org/v1alpha1"
    assert (rich["current"], rich["min"], rich["max"], rich["roles"]) == (9, 1, 9, {"worker": rich["target"]})
    (web,) = made["foreign"]
    assert web == {"namespace": "default", "name": "web", "placed": True, "reason": "room is made for it on n1"}
    assert set(made["cluster"]) == {"capacity", "used_before", "used_after"}
    assert made["cluster"]["capacity"] == {"cpu": "9", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"}
    assert made["cluster"]["used_before"]["cpu"] == "9"


def test_the_table_shows_changes_first_then_who_waits_then_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calm = [elastic_job("a-calm", 1, 1, namespace="aaa")]
    (tmp_path / "more.json").write_text(json.dumps(flat(running(calm[0], {"gone": 1}))))
    assert main(["plan", "-f", *written(tmp_path, "json list"), str(tmp_path / "more.json"), *NOW]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split() == ["JOB", "NOW", "TARGET", "MIN-MAX", "REASON"]
    assert lines[1].startswith("zoo/rich")
    assert "5 (-4)" in lines[1]
    assert [line.split()[0] for line in lines[2:5]] == ["default/bad", "default/new", "aaa/a-calm"]
    assert "PENDING POD" in out
    assert "cfs: 9 -> " in lines[-1]


def test_exit_0_whenever_a_plan_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    assert main(["plan", "-f", str(empty)]) == 0
    assert capsys.readouterr().out == "no jobs and no pending pods: nothing to plan\n"
    broken = tmp_path / "odd.json"
    broken.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "status": 7}))
    assert main(["plan", "-f", str(broken), "-o", "json"]) == 0
    assert "left out: Node /x cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{not json", "is not JSON"),
        ("a: [1", "is not YAML"),
        ("a: &x [*x]\n", "repeats *x within itself"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{n}: &{n} [{','.join(['*' + b] * 10)}]\n" for b, n in itertools.pairwise("abcdefgh")),
            "once too often; write it out",
        ),
        ("[" * 300 + "]" * 300, ""),
        ("- " * 300 + "1", "is nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "snapshot"
    file.write_text(content)
    code = main(["plan", "-f", str(file)])
    said = capsys.readouterr()
    if words:
        assert code == 1
        assert words in said.err
        assert str(file) in said.err
    else:
        assert code in (0, 1)


def test_files_that_are_not_there_or_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", str(tmp_path / "none")]) == 1
    assert "cannot be read: No such file or directory" in capsys.readouterr().err
    (tmp_path / "latin").write_bytes(b"name: caf\xe9\n")
    assert main(["plan", "-f", str(tmp_path / "latin")]) == 1
    assert "is not UTF-8" in capsys.readouterr().err
    (tmp_path / "folder").mkdir()
    assert main(["plan", "-f", str(tmp_path / "folder")]) == 1
    assert "no file in it ends in .yaml, .yml, .json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-load", "97"], "wants a number above 0 and up to 1"),
        (["--now", "tomorrow"], "wants a time such as 2026-01-31T12:00:00Z"),
        (["--now", "nan"], "wants a time such as"),
    ],
)
def test_options_that_are_wrong_say_what_is_wanted(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "-f", *written(tmp_path, "json list"), *words]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("when", [stamp(), "1900000000", "1900000000.5"])
def test_the_time_may_be_written_in_two_ways(when: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", *written(tmp_path, "json list"), "--now", when, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["now"].startswith(stamp()[:-1])


def test_times_in_yaml_stay_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unquoted, YAML would make dates of them."""
    job = elastic_job("a", 1, 1)
    created = job["metadata"]["creationTimestamp"]
    text = yaml.safe_dump(job).replace(f"'{created}'", created)
    (tmp_path / "job.yaml").write_text(text)
    made = printed(capsys, "-f", str(tmp_path / "job.yaml"))
    assert "does not validate" not in made["jobs"][0]["reason"]


def test_other_commands_do_not_pay_for_numpy() -> None:
    program = "import sys; from edl.cli.main import main; main(['--help']); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


class _Cluster:
    """As much of a client as the command uses: lists, in which items do not say what they are."""

    def __init__(self, values: list[Data], missing: tuple[str, ...] = ()) -> None:
        self.values, self.missing = values, missing

    async def list(self, resource: Any, labels: str = "") -> Any:
        if resource.plural in self.missing:
            raise ApiError(Status(code=404, reason="NotFound", message=f"no {resource.plural}"))
        found = [
            one for one in self.values if (one["apiVersion"], one["kind"]) == (resource.api_version, resource.kind)
        ]
        items = [{key: part for key, part in one.items() if key not in ("apiVersion", "kind")} for one in found]
        return SimpleNamespace(items=items)


@pytest.mark.parametrize("missing", [(), ("jobresources",)], ids=["all kinds", "a kind is not installed"])
def test_without_a_file_it_reads_the_cluster(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_this(work: Any, options: Any) -> int:
        code: int = asyncio.run(work(_Cluster(objects(), missing), "default"))
        return code

    monkeypatch.setattr(plan_command, "with_cluster", with_this)
    made = printed(capsys)
    assert {job["name"]: job["target"] for job in made["jobs"]} == {"bad": 0, "new": 0, "rich": 5}


def test_what_lies_ahead_of_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = elastic_job("a", 4, 4, gpu=1, status={})
    state = state_of(first, {"points": [[4, 1, 0, 4.0, 60.0, 0.0, 9]], "steps": True, "done": 0, "total": 2400})
    waiting = elastic_job("b", 4, 4, gpu=1)
    everything = flat(node("n", cpu=64, memory="256Gi", gpu=4), first, running(first, {"n": 4}), state, waiting)
    file = tmp_path / "all.json"
    file.write_text(json.dumps(listed(everything)))
    assert main(["plan", "-f", str(file), *NOW, "--ahead", "2h"]) == 0
    shown = capsys.readouterr().out
    assert "default/b   starts in about 10 min (6-17)" in shown
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("in ")] == [["in", "10"], ["in", "10"]]
    assert main(["plan", "-f", str(file), *NOW, "--ahead", "2h", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["waiting"][0]["starts_in"] == 600.0
    assert [(one["name"], one["to"], one["ends"]) for one in found["timeline"]] == [("a", 0, True), ("b", 4, False)]


@pytest.mark.parametrize("ahead", ["", "2", "-1h", "0s", "1000000h", "soon"])
def test_a_time_ahead_that_is_none_is_refused(ahead: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", "none.json", f"--ahead={ahead}"]) == 1
    assert "--ahead" in capsys.readouterr().err
