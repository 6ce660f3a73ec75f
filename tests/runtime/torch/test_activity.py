"""Reports while workers compute, silence while they do not."""

import os
import subprocess
import sys
import time

import pytest

from edl.runtime.torch.activity import Activity, computed, of_workers


class Scene:
    def __init__(self, timeout: float = 10.0) -> None:
        self.seconds, self.reports = 0.0, 0
        self.activity = Activity(timeout, computed=lambda: self.seconds, report=self._report)

    def _report(self) -> None:
        self.reports += 1


@pytest.mark.parametrize(
    ("share", "reports"),
    [(1.0, 5), (0.05, 5), (0.001, 0), (0.0, 0)],
    ids=["busy", "mostly waiting", "next to nothing", "hangs"],
)
def test_what_counts(share: float, reports: int) -> None:
    scene = Scene()
    for tenth in range(105):  # looked at ten times a second, reported a few times in a timeout
        scene.seconds = share * tenth / 10
        scene.activity.check(tenth / 10)
    assert scene.reports == reports


def test_a_start_is_reported_and_what_was_computed_before_does_not_count() -> None:
    scene = Scene()
    scene.activity.check(0.0)
    scene.seconds = 50.0
    scene.activity.begin()
    scene.seconds = 1.0  # other processes: they have computed less than those before them
    scene.activity.check(100.0)
    scene.activity.check(103.0)
    assert scene.reports == 1
    scene.seconds = 3.0
    scene.activity.check(106.0)
    assert scene.reports == 2


def test_who_waits_for_others_does_not_hang() -> None:
    scene = Scene()
    for second in range(20):
        scene.activity.wait(float(second))
    assert scene.reports == 10


def test_only_jobs_with_a_stall_timeout_are_watched() -> None:
    env = {"EDL_SERVICE_URL": "http://127.0.0.1:1", "EDL_JOB_NAMESPACE": "ns", "EDL_JOB_NAME": "j"}
    assert of_workers(lambda: None, env) is None
    assert of_workers(lambda: None, {**env, "EDL_STALL_TIMEOUT": "5"}) is not None


def test_all_that_runs_below_a_process_counts_once() -> None:
    spin = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])"
    process = subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
    try:
        end = time.monotonic() + 60
        while computed(os.getpid()) - computed(os.getpid(), besides=process.pid) < 0 or computed(process.pid) < 0.3:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, 9)
        process.wait()
