"""Logs of pods that are gone are kept by job, within bounds, until the job is gone."""

import os
from pathlib import Path

import pytest

from edl.api.kubernetes.core import convert
from edl.embedded import kept_logs
from edl.embedded.kept_logs import KeptLogs
from edl.embedded.node.pod.types import Pod


def pod(name: str, job: str = "uid-1") -> Pod:
    labels = {"edl.dev/job-uid": job} if job else {}
    return convert({"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"containers": []}}, Pod)


def written(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"2026-11-17T00:00:00.000000000Z stdout F {line}\n" for line in lines))
    return path


def test_a_log_is_kept_with_its_job_and_goes_with_it(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path / "logs")
    kept.keep(pod("j-0"), written(tmp_path / "pods/c/0.log", "new"))
    written(tmp_path / "pods/c/1.log.1", "old")
    kept.keep(pod("j-1"), written(tmp_path / "pods/c/1.log", "new"))
    assert [log.pod for log in kept.of("uid-1")] == ["j-0", "j-1"]
    assert sorted(file.name for file in (tmp_path / "logs/uid-1/j-1").iterdir()) == ["log", "log.1"]
    kept.forget_others({"uid-1"})
    assert len(list(kept.of("uid-1"))) == 2
    kept.forget_others({"uid-2"})
    assert list(kept.of("uid-1")) == []


def test_pods_of_nobody_and_pods_that_wrote_nothing_are_not_kept(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path / "logs")
    kept.keep(pod("j-0", job=""), written(tmp_path / "0.log", "x"))
    kept.keep(pod("j-1"), tmp_path / "none.log")
    assert list(kept.of("uid-1")) == list(kept.of("")) == []


def test_the_oldest_are_given_up_where_there_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_logs, "MOST_BYTES", 250)
    kept = KeptLogs(tmp_path / "logs")
    for number in range(4):
        kept.keep(pod(f"j-{number}"), written(tmp_path / f"{number}.log", "x" * 60))
        os.utime(tmp_path / f"logs/uid-1/j-{number}", (number, number))
    assert [log.pod for log in kept.of("uid-1")] == ["j-2", "j-3"]
