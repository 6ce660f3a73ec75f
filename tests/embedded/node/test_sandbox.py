"""A pod's own view of the file system, in every mode that this machine allows; and that the machine never sees it."""

import asyncio
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.embedded.node.runtime import Launch, Runtime
from edl.embedded.node.supervisor import sandbox
from edl.embedded.node.supervisor.sandbox import Mount


def allowed(mode: str) -> bool:
    try:
        return sandbox.best_mode([mode])[0] == mode
    except OSError:
        return False


MODES = [
    pytest.param(
        mode,
        marks=[
            pytest.mark.may_skip(f"the {mode} mode needs rights that a test machine may not give"),
            pytest.mark.skipif(not allowed(mode), reason=f"{mode} is not allowed here"),
        ],
    )
    for mode in ("mount", "user")
]


def exists(path: str) -> bool:
    return Path(path).exists()


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    (path / "greeting").write_text("hello\n")
    (tmp_path / "scratch").mkdir()
    return path


async def run(mode: str, tmp_path: Path, script: str, mounts: list[Mount]) -> tuple[int, list[str]]:
    log = tmp_path / "0.log"
    launch = Launch(
        id="c",
        argv=["sh", "-c", script],
        env={"PATH": os.environ["PATH"]},
        log=str(log),
        hostname="pod-7",
        mounts=mounts,
        scratch=str(tmp_path / "scratch"),
    )
    async with Runtime(owner=f"test-{os.urandom(4).hex()}", modes=[mode]) as runtime, asyncio.timeout(30):
        running = await runtime.run(launch)
        code = (await running.ended).code
    return code, [line.split(" ", 3)[3] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/mnt", id="exists"),
        pytest.param("/edl-data", id="new-in-root"),
        pytest.param("/edl-data/a/b", id="new-tree-in-root"),
        pytest.param("/etc/edl/config", id="new-in-a-system-directory"),
        pytest.param("/var/run/secrets/edl.dev", id="through-a-link"),
    ],
)
async def test_a_volume_appears_where_it_is_mounted(mode: str, tmp_path: Path, volume: Path, target: str) -> None:
    there_before = exists(target)
    script = f"cat {target}/greeting; echo back > {target}/answer; hostname; pwd; ls / | grep -c usr"
    code, said = await run(mode, tmp_path, script, [Mount(str(volume), target)])
    assert (code, said) == (0, ["hello", "pod-7", "/", "1"])
    assert (volume / "answer").read_text() == "back\n"
    assert exists(target) == there_before, "the machine itself must not change"


@pytest.mark.parametrize("mode", MODES)
async def test_a_single_file_and_a_device_directory(mode: str, tmp_path: Path, volume: Path) -> None:
    mounts = [Mount(str(volume / "greeting"), "/etc/hosts"), Mount(str(volume / "greeting"), "/dev/edl-last-words")]
    script = "cat /etc/hosts; echo bye > /dev/edl-last-words; echo x > /dev/null; ls -d /dev/pts /dev/shm"
    code, said = await run(mode, tmp_path, script, mounts)
    assert (code, said) == (0, ["hello", "/dev/pts", "/dev/shm"])
    assert (volume / "greeting").read_text() == "bye\n"
    assert not exists("/dev/edl-last-words")


@pytest.mark.parametrize("mode", MODES)
async def test_a_read_only_volume_cannot_be_written(mode: str, tmp_path: Path, volume: Path) -> None:
    mounts = [Mount(str(volume), "/edl-data", True)]
    code, said = await run(mode, tmp_path, "cat /edl-data/greeting; echo x 2>/dev/null > /edl-data/x", mounts)
    assert code != 0
    assert said[0] == "hello"
    assert not (volume / "x").exists()


@pytest.mark.parametrize("mode", MODES)
async def test_mounts_nest(mode: str, tmp_path: Path, volume: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    mounts = [Mount(str(inner), "/edl-data/sub/deep"), Mount(str(volume), "/edl-data")]
    code, said = await run(mode, tmp_path, "cat /edl-data/greeting; touch /edl-data/sub/deep/file", mounts)
    assert (code, said) == (0, ["hello"])
    assert (inner / "file").exists()


@pytest.mark.parametrize("mode", MODES)
async def test_what_surrounds_a_new_mount_point_stays(mode: str, tmp_path: Path, volume: Path) -> None:
    before = sorted(os.listdir("/etc"))
    code, said = await run(mode, tmp_path, "ls -A /etc", [Mount(str(volume), "/etc/edl-config")])
    assert code == 0
    assert sorted(said) == sorted([*before, "edl-config"])


async def test_the_mode_none_changes_nothing(tmp_path: Path, volume: Path) -> None:
    code, said = await run(
        "none", tmp_path, "ls /edl-data 2>/dev/null || echo absent", [Mount(str(volume), "/edl-data")]
    )
    assert (code, said) == (0, ["absent"])


def test_when_no_mode_is_allowed_the_error_says_which_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_attempt", lambda _: "unshare: Operation not permitted")
    with pytest.raises(OSError, match="user: unshare: Operation not permitted"):
        sandbox.best_mode(["user"])


NOBODY = 65534
_PR_SET_DUMPABLE = 4


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that somebody without rights can reach and owns."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        for part in ("volume", "scratch"):
            (path / part).mkdir()
        (path / "volume" / "greeting").write_text("hello\n")
        for owned in (path, *path.rglob("*")):
            os.chown(owned, NOBODY, NOBODY)
        yield path


@pytest.mark.may_skip("only root can become somebody without rights; everybody else is one already")
@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_somebody_without_any_rights_gets_the_same_view(open_directory: Path) -> None:
    script = "cat /edl-data/greeting; hostname; echo bye > /dev/edl-last-words; touch /etc/edl/no || echo read-only"
    mounts = [
        Mount(str(open_directory / "volume"), "/edl-data"),
        Mount(str(open_directory / "volume" / "greeting"), "/dev/edl-last-words"),
        Mount(str(open_directory / "volume"), "/etc/edl", True),
    ]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writer, 1)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an exec: else /proc/self is not ours
            assert sandbox.best_mode()[0] == "user"
            sandbox.enter("user", "pod-7", mounts, str(open_directory / "scratch"))
            os.execvp("sh", ["sh", "-c", script])
        except BaseException as error:
            os.write(1, str(error).encode())
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as output:
        said = output.read().split()
    os.waitpid(pid, 0)
    assert said == ["hello", "pod-7", "read-only"]
    assert (open_directory / "volume" / "greeting").read_text() == "bye\n"
