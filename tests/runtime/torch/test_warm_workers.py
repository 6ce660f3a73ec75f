"""A forked worker is like one that was started: arguments, environment, output, end; and nobody is left behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from edl.runtime.torch.warm_workers import Zygote
from edl.runtime.torch.zygote import unsafe

SAY = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "rank": os.environ.get("RANK"), "path": sys.path[0], "cwd": os.getcwd(), "name": __name__,
    "file": __file__, "main": sys.modules["__main__"].__dict__ is globals(), "warm": "colorsys" in sys.modules,
    "offered": os.environ.get("EDL_ZYGOTE"), "session": os.getsid(0) == os.getpid(), "parent": os.getppid(),
}))
"""


class Scene:
    def __init__(self, folder: Path, zygote: Zygote) -> None:
        self.folder, self.zygote = folder, zygote
        self.started: list[subprocess.Popen[str]] = []

    def start(self, code: str, *arguments: str, **env: str) -> "subprocess.Popen[str]":
        script = self.folder / "script.py"
        script.write_text(code)
        with self.zygote.offered():
            process = subprocess.Popen(
                [sys.executable, *self.zygote.through(["-u", str(script), *arguments])],
                env={**os.environ, **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run(self, code: str, *arguments: str, **env: str) -> tuple[int, str]:
        process = self.start(code, *arguments, **env)
        out, _ = process.communicate(timeout=60)
        return process.returncode, out


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    deep = tmp_path / ("deep" * 30)  # longer than the address of a socket may be
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    zygote = Zygote.start({**os.environ, "EDL_WARM_IMPORTS": "colorsys"}, imports=("json", "numpy"))
    assert zygote is not None
    assert zygote.wait_until_warm()
    scene = Scene(tmp_path, zygote)
    yield scene
    for process in scene.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    zygote.close()
    assert list(deep.iterdir()) == []


def said(scene: Scene, code: str, *arguments: str, **env: str) -> dict[str, object]:
    status, out = scene.run(code, *arguments, **env)
    assert status == 0, out
    answer: dict[str, object] = json.loads(out)
    return answer


def test_it_looks_like_a_script_that_was_started(scene: Scene) -> None:
    answer = said(scene, SAY, "--lr", "0.1", RANK="3")
    parent = answer.pop("parent")
    assert answer == {
        "argv": [str(scene.folder / "script.py"), "--lr", "0.1"],
        "rank": "3",
        "path": str(scene.folder),
        "cwd": os.getcwd(),
        "name": "__main__",
        "file": str(scene.folder / "script.py"),
        "main": True,
        "warm": True,
        "offered": None,
        "session": True,
    }
    assert parent == scene.zygote._process.pid


def test_a_module_runs_too(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    (scene.folder / "tool.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    monkeypatch.chdir(scene.folder)
    with scene.zygote.offered():
        out = subprocess.run(
            [sys.executable, *scene.zygote.through(["-u", "-m", "tool", "x"])],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert out.stdout == "__main__ ['x']\n"


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("import sys; sys.exit('no data')", 1, "no data"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os._exit(9)", 9, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
        ("import ctypes; ctypes.string_at(0)", -11, ""),
        ("import atexit; atexit.register(print, 'bye')", 0, "bye"),
        (
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
            0,
            "late",
        ),
        ("def f(:", 1, "SyntaxError"),
    ],
)
def test_it_ends_as_it_would_alone(scene: Scene, code: str, status: int, words: str) -> None:
    found, out = scene.run(code)
    assert (found, words in out) == (status, True), out


def test_random_numbers_differ_between_workers(scene: Scene) -> None:
    code = "import random, numpy; print(random.random(), numpy.random.rand())"
    drawn = [scene.run(code)[1].split() for _ in range(2)]
    assert drawn[0][0] != drawn[1][0]
    assert drawn[0][1] != drawn[1][1]


def test_a_setting_that_is_read_at_import_starts_it_in_the_ordinary_way(scene: Scene) -> None:
    answer = said(scene, SAY, OMP_NUM_THREADS="17")
    assert (answer["warm"], answer["parent"]) == (False, os.getpid())


def test_what_an_import_writes_into_the_environment_is_no_difference(tmp_path: Path) -> None:
    """torch does that: its compiler notes there where its cache is."""
    (tmp_path / "writes.py").write_text(
        "import os\nos.environ['TORCHINDUCTOR_CACHE_DIR'] = os.environ['OMP_X'] = 'here'\n"
    )
    zygote = Zygote.start({**os.environ, "PYTHONPATH": str(tmp_path)}, imports=("writes", "colorsys"))
    assert zygote is not None
    try:
        answer = said(Scene(tmp_path, zygote), SAY, PYTHONPATH=str(tmp_path))
    finally:
        zygote.close()
    assert answer["warm"]


def test_signals_reach_the_worker(scene: Scene) -> None:
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(5))\nprint('up')\ntime.sleep(60)\n"
    )
    process = scene.start(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 5


@pytest.mark.parametrize("who", ["the starter", "the zygote", "the agent's end of the pipe"])
def test_a_worker_does_not_outlive(scene: Scene, who: str) -> None:
    process = scene.start("import os, time\nprint(os.getpid())\ntime.sleep(60)\n")
    assert process.stdout is not None
    worker = psutil.Process(int(process.stdout.readline()))
    zygote = scene.zygote._process
    if who == "the starter":
        os.killpg(process.pid, signal.SIGKILL)
    elif who == "the zygote":
        zygote.kill()
    else:
        assert zygote.stdin is not None
        zygote.stdin.close()
    until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, f"the worker after {who}")
    assert process.wait(60) == -signal.SIGKILL


def test_without_a_zygote_the_interpreter_starts(scene: Scene) -> None:
    scene.zygote._process.kill()
    scene.zygote._process.wait()
    answer = said(scene, SAY)
    assert (answer["warm"], answer["parent"]) == (False, os.getpid())


def test_what_cannot_be_imported_leaves_workers_cold(caplog: pytest.LogCaptureFixture) -> None:
    zygote = Zygote.start(os.environ, imports=("no_such_module_at_all",))
    assert zygote is not None
    try:
        assert not zygote.wait_until_warm()
        with zygote.offered():
            assert "EDL_ZYGOTE" not in os.environ
    finally:
        zygote.close()
    assert "start cold" in caplog.text


@pytest.mark.parametrize(
    ("files", "threads", "words"),
    [
        (["/dev/null", "pipe:[1]"], 1, ""),
        (["/dev/null", "/dev/nvidiactl"], 1, "/dev/nvidiactl"),
        (["/dev/kfd"], 1, "/dev/kfd"),
        ([], 2, "thread"),
    ],
)
def test_what_a_fork_could_not_carry_over_is_not_forked(files: list[str], threads: int, words: str) -> None:
    reason = unsafe(files, threads)
    assert bool(reason) == bool(words)
    assert words in reason


def test_imports_that_start_a_thread_leave_workers_cold(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
    )
    zygote = Zygote.start({**os.environ, "PYTHONPATH": str(tmp_path)}, imports=("threads",))
    assert zygote is not None
    try:
        assert not zygote.wait_until_warm()
    finally:
        zygote.close()


def test_without_a_place_for_a_socket_workers_are_cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert Zygote.start(os.environ, imports=("json",)) is None


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)
