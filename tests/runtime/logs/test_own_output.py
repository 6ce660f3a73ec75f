"""Processes of our own in a pod: what they print is in the pod's log, as ever, and at the Brain when they are gone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edl.operator.job_service import RoleRecord
from tests.runtime.logs.served_brain import ServedBrain, access
from tests.runtime.torch.service_thread import ServiceThread

ROOT = Path(__file__).parents[3]
PATIENT = "import os, sys\nfrom edl.runtime.logs import own_output\nown_output.SEND = 60.0\n"
COPIES = PATIENT + "from edl.runtime.environment import Environment\n"
COPIES += "own_output.copy_output(Environment.read(os.environ), leads=True, every=0.05)\n"


@pytest.fixture(autouse=True)
def told(service: ServiceThread, brain: ServedBrain) -> None:
    service.tell_of_brain(access(brain.url))


def environment(service: ServiceThread, **more: str) -> dict[str, str]:
    path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    return path | service.env("p") | {"POD_IP": "127.0.0.1"} | more


def run(service: ServiceThread, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-c", COPIES + script], environment(service, **more)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


SAYS = """
import logging
logging.basicConfig(format="%(message)s")
print("step", 1)
print("a warning", file=sys.stderr)
logging.error("logged")
print("not ended", end="")
raise KeyError("lost")
"""


def test_what_it_says_is_in_its_own_log_and_at_the_brain(service: ServiceThread, brain: ServedBrain) -> None:
    done = run(service, SAYS)
    assert done.returncode == 1
    assert done.stdout == "step 1\nnot ended"
    kept = brain.lines()
    assert sorted(kept) == sorted([*done.stdout.splitlines(), *done.stderr.splitlines()])
    assert kept[:3] == ["step 1", "a warning", "logged"]
    assert "KeyError: 'lost'" in kept, "the traceback, too"
    assert brain.leads() == [("p", True)]


def test_who_leaves_at_once_is_heard(service: ServiceThread, brain: ServedBrain) -> None:
    done = run(service, "print('the last words', flush=True); own_output.exit_now(143)")
    assert (done.returncode, done.stdout) == (143, "the last words\n")
    assert brain.lines() == ["the last words"]


FORKS = """
child = os.fork()
for number in range(2000):
    print("child" if child == 0 else "parent")
if child == 0:
    own_output.end_output()
    sys.stdout.flush()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_child_that_was_forked_writes_for_itself(service: ServiceThread, brain: ServedBrain) -> None:
    done = run(service, FORKS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("child\n") == 2000
    assert brain.lines() == ["parent"] * 2000


SIGNALLED = """
import signal
heard = asked = 0
def hear(number, frame):
    global heard
    print("heard", file=sys.stderr)
    heard += 1
signal.signal(signal.SIGALRM, hear)
while heard < 100:
    if asked == heard:  # one at a time: Python itself lets no handler print within another's printing
        asked += 1
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
    print("x")
"""


def test_a_signal_handler_may_print_while_the_program_does(service: ServiceThread, brain: ServedBrain) -> None:
    """No lock is waited for that the same thread holds: it would never be given back."""
    done = run(service, SIGNALLED)
    assert done.returncode == 0, done.stderr
    assert brain.lines().count("heard") == 100


@pytest.mark.parametrize("wants", [True, False], ids=["below torchrun's agent", "nobody wants any"])
def test_what_others_copy_or_nobody_wants_is_not_copied(
    service: ServiceThread, brain: ServedBrain, wants: bool
) -> None:
    service.tell_of_brain(access(brain.url, logs=wants))
    done = run(service, "print('once')", EDL_WORKER_LINK="somewhere" if wants else "")
    assert (done.returncode, done.stdout) == (0, "once\n")
    assert brain.lines() == []


def test_outside_of_a_pod_nothing_happens(tmp_path: Path) -> None:
    script = COPIES + "print('alone', sys.stdout.write.__self__ is sys.stdout)"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alone True\n")


# The roles themselves.


def started(service: ServiceThread, script: str, **more: str) -> "subprocess.Popen[str]":
    pipe, command = subprocess.PIPE, [sys.executable, "-c", PATIENT + script]
    return subprocess.Popen(command, env=environment(service, **more), stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(
    ("role", "says"),
    [("master", "master of epoch 1"), ("pserver", "holding slot"), ("trainer", "master of epoch 1")],
)
def test_the_log_of_a_role_outlasts_its_pod(
    service: ServiceThread, brain: ServedBrain, role: str, says: str, tmp_path: Path
) -> None:
    roles = {name: RoleRecord(1) for name in ("master", "pserver", "trainer")}
    service.edit(phase="running", roles=roles)
    more = {"EDL_INDEX": "0", "MASTER": "127.0.0.1:0", "PADDLE_INIT_PORT": "0", "TMPDIR": str(tmp_path)}
    process = started(service, f"from edl.cli.main import main; sys.exit(main([{role!r}]))", **more)
    assert process.stderr is not None
    said: list[str] = []
    while not (said and says in said[-1]):
        said.append(process.stderr.readline())
        assert said[-1], f"it has ended: {said}"
    service.edit(phase="succeeded")  # nobody waits for its shard
    process.send_signal(signal.SIGTERM)
    with process:
        said += process.stderr.read().splitlines()
    kept = brain.lines()
    assert [line.rstrip() for line in said][: len(kept)] == kept, "to the end, in which its threads end, too"
    assert any(says in line for line in kept)
    assert brain.leads() == [("p", False)]


TRAINS = """
from edl.trainer import Trainer
with Trainer() as trainer:
    for task in trainer.tasks(chunks=2):
        print("trained", task.chunk)
"""


@pytest.mark.parametrize("index", [0, 1])
def test_a_script_that_trains_with_our_library_is_kept(service: ServiceThread, brain: ServedBrain, index: int) -> None:
    """Of the first trainer more."""
    service.edit(phase="running", roles={"trainer": RoleRecord(2)})
    process = started(service, TRAINS, EDL_INDEX=str(index), TRAINERS="2", EDL_ROLE="trainer")
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert out == f"trained {index}\n"
    assert f"trained {index}" in brain.lines()
    assert brain.leads() == [("p", index == 0)]
