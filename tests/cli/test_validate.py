"""`edl validate`: the report as text and JSON, exit codes, and every kind of file that is not a manifest."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edl.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"

GOOD = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: job}
spec:
  trainer: {entrypoint: python train.py, min-instance: 2}
"""

BAD = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata:
  name: job
  labels:
    enabled: on
    version: 1.10
spec:
  port: 0o10
  fault_tolerant: true
  master: {}
  port: 99
  trainer:
    entrypoint: python train.py
    min_instance: 2
    min-instance: 7
    max-instance: 6
    replicas: 1e3
    resources:
      limits: {cpu: lots}
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    def run(*files: str | bytes, words: tuple[str, ...] = ()) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        names = [f"{number}.yaml" for number in range(len(files))]
        for name, content in zip(names, files, strict=True):
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        code = main(["validate", *words, *(["-f", *names] if files else [])])
        captured = capsys.readouterr()
        assert captured.err == ""
        return code, captured.out

    return run


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_valid(example: Path, run: Run) -> None:
    code, report = run(words=("-f", str(example)))
    assert code == 0
    assert report.endswith(": valid\n")


def test_the_examples_hold_every_manifest_of_the_kinds() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} >= {
        "trainingjob.yaml",
        "trainingjob-v1alpha1.yaml",
        "pytorch-elasticjob.yaml",
        "easydl-elasticjob.yaml",
        "easydl-jobresource.yaml",
    }


def test_an_elastic_job_that_is_not_fault_tolerant_is_a_warning(run: Run) -> None:
    code, report = run(words=("-f", str(EXAMPLES / "trainingjob.yaml"), "-o", "json"))
    findings = json.loads(report)
    assert code == 0
    assert [one["path"] for one in findings] == ["spec.mountPath", "spec.trainer.max-instance"]
    finding = findings[1]
    assert list(finding) == ["file", "document", "line", "path", "message", "severity"]
    assert (finding["path"], finding["severity"], finding["document"]) == ("spec.trainer.max-instance", "warning", 1)


def test_a_comment_that_is_none(run: Run) -> None:
    slip = (EXAMPLES / "easydl-jobresource.yaml").read_text().replace("job  # Job", "job  // Job")
    assert run(slip) == (
        1,
        "0.yaml:8 spec.selector.name: 'elastic-deepctr-job  // Job Name' (in YAML a comment begins with #, not //) "
        "must be "
        "lower case letters, digits and '-', and begin and end with a letter or digit\n",
    )


def test_a_stray_quote(run: Run) -> None:
    slip = (EXAMPLES / "pytorch-elasticjob.yaml").read_text().replace('vision/checkpoint"', 'vision/checkpoint""')
    assert run(slip) == (
        1,
        "0.yaml:27: is not YAML at column 49: a quote opens here and is never closed; is it one too many?\n",
    )


def test_all_errors_at_once_in_the_order_of_lines(run: Run) -> None:
    code, report = run(BAD)
    changed = "is not the same to all YAML parsers (a number, another number, or text)"
    assert code == 1
    assert report.splitlines() == [
        '0.yaml:6 metadata.labels.enabled: on is true to some YAML parsers and text to others: write true, or "on"',
        "0.yaml:7 metadata.labels.version: found number 1.1, wants text: put it in quotes",
        f'0.yaml:9 spec.port: 0o10 {changed}: write it in plain decimal digits, or "0o10" in quotes if it is text',
        "0.yaml:12 spec.port: is given twice, first in line 9",
        "0.yaml:15 spec.trainer.min_instance: unknown field; did you mean min-instance?",
        "0.yaml:16 spec.trainer.min-instance: 7 is more than max-instance 6",
        f'0.yaml:18 spec.trainer.replicas: 1e3 {changed}: write 1000, or "1e3" in quotes if it is text',
        "0.yaml:20 spec.trainer.resources.limits.cpu: 'lots': wants a quantity such as 500m, 2 or 1Gi",
    ]


def test_json_has_all_six_keys_always(run: Run) -> None:
    code, report = run(BAD, GOOD + "---\n" + GOOD.replace("2", "0"), "", words=("-o", "json"))
    findings = json.loads(report)
    assert code == 1
    for finding in findings:
        assert [type(finding[key]) for key in ("file", "document", "line", "path", "message", "severity")] == [
            str, int, int, str, str, str,
        ]  # fmt: skip
    assert [(finding["file"], finding["document"], finding["line"]) for finding in findings[-2:]] == [
        ("1.yaml", 2, 11),
        ("2.yaml", 1, 1),
    ]


def test_good_files_say_so(run: Run) -> None:
    assert run(GOOD, GOOD + "---\n---\n" + GOOD.replace("{name: job}", "{generateName: job-}")) == (
        0,
        "0.yaml:1 TrainingJob job: valid\n1.yaml:1 TrainingJob job: valid\n1.yaml:8 TrainingJob job-: valid\n",
    )
    assert run(GOOD, words=("-o", "json")) == (0, "[]\n")


def test_documents_after_the_first_are_named(run: Run) -> None:
    code, report = run(GOOD + "---\nnull\n---\nkind: Deployment\napiVersion: apps/v1\n")
    assert code == 1
    assert report.splitlines()[1:] == [
        "0.yaml:7: is empty; wants an object with apiVersion and kind (document 2)",
        '0.yaml:9 kind: "Deployment" of apps/v1 is none of EDL\'s kinds; EDL has TrainingJob, ElasticJob, JobResource '
        "(document 3)",
    ]


@pytest.mark.parametrize("kind", ["List", "TrainingJobList"])
def test_lists_are_taken_apart(run: Run, kind: str) -> None:
    items: list[Any] = [
        {
            "apiVersion": "paddlepaddle.org/v1",
            "kind": "TrainingJob",
            "metadata": {"name": "a"},
            "spec": {"trainer": trainer},
        }
        for trainer in ({"entrypoint": "x", "min-instance": 1}, {"entrypoint": "x"})
    ]
    code, report = run(json.dumps({"apiVersion": "v1", "kind": kind, "items": [*items, None]}, indent=1))
    assert code == 1
    first, second, third = report.splitlines()
    assert first.endswith(" TrainingJob a: valid")
    assert " items[1].spec.trainer.min-instance: is required" in second
    assert " items[2]: found nothing, wants an object with apiVersion and kind" in third
    code, report = run(json.dumps({"apiVersion": "v1", "kind": kind, "items": []}))
    assert (code, report) == (1, "0.yaml:1: is a list without items; wants an object with apiVersion and kind\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: is empty: no manifest in it"),
        (b"# nothing\n---\n", ":1: is empty: no manifest in it"),
        (b"null\n", ":1: is empty; wants an object with apiVersion and kind"),
        (b"[]\n", ":1: found a list, wants an object with apiVersion and kind"),
        (b"just text\n", ':1: found text "just text", wants an object with apiVersion and kind'),
        (b"a: 1\nb: \xff\xfe\n", ":2: is not UTF-8: byte 0xff; save it as UTF-8"),
        ("a: 1".encode("utf-16"), ":1: is not UTF-8: byte 0xff; save it as UTF-8"),
        (b"a: " + b"x" * 10_000_000, ":1: is larger than 5000000 bytes; split it"),
        (b"[" * 10_000, ":1: is nested deeper than 100 levels"),
        (b"a: \x00", ":1: is not YAML: control characters are not allowed (character 0)"),
    ],
    ids=["nothing", "comments", "null", "list", "text", "latin", "utf-16", "10 MB", "10,000 levels", "NUL"],
)
def test_what_is_not_a_manifest(run: Run, content: bytes, message: str) -> None:
    assert run(content) == (1, f"0.yaml{message}\n")


def test_a_byte_order_mark_is_no_harm(run: Run) -> None:
    assert run(b"\xef\xbb\xbf" + GOOD.encode())[0] == 0


def test_thousands_of_unknown_fields_are_refused_quickly_and_briefly(run: Run) -> None:
    hostile = GOOD + "".join(f"  field{number}: x\n" for number in range(30_000))
    code, report = run(hostile)
    assert code == 1
    assert 90 < report.count("unknown field") <= 100
    assert "0.yaml:1: warning: has more problems than the first 100; mend these first" in report


def test_files_that_cannot_be_read_are_in_the_report(run: Run, tmp_path: Path) -> None:
    code, report = run(GOOD, words=("-f", "absent.yaml"))
    assert (code, report) == (
        1,
        "absent.yaml:1: cannot be read: No such file or directory\n0.yaml:1 TrainingJob job: valid\n",
    )


def test_a_directory_means_the_manifests_in_it(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "b.yml").write_text(GOOD)
    (folder / "a.json").write_text(json.dumps({"kind": "x"}))
    (folder / "notes.txt").write_text("not for us")
    code, report = run(words=("-f", "jobs"))
    assert (code, [line.split(":")[0] for line in report.splitlines()]) == (1, ["jobs/a.json", "jobs/b.yml"])
    (tmp_path / "none").mkdir()
    assert run(words=("-f", "none")) == (1, "none:1: cannot be read: Is a directory\n")


def test_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert run(words=("-f", "-")) == (0, "-:1 TrainingJob job: valid\n")
