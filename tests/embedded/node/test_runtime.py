"""Containers as process groups: start, output, signals, memory, and that nothing is left behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.embedded.node.containers import PATH, alive, end, log_lines, runtime, shell, until

from edl.embedded.node.runtime import Launch, Runtime, StartError
from edl.embedded.node.supervisor.sandbox import Mount


async def test_output_is_logged_with_time_stream_and_completeness(tmp_path: Path) -> None:
    async with runtime() as node:
        running = await node.run(shell(tmp_path, "echo one; echo two >&2; echo three; printf four; exit 3"))
        outcome = await end(running)
    assert (outcome.code, outcome.signal) == (3, 0)
    assert outcome.started <= outcome.finished
    assert sorted(log_lines(tmp_path)) == [
        ("stderr", "F", "two"),
        ("stdout", "F", "one"),
        ("stdout", "F", "three"),
        ("stdout", "P", "four"),
    ]
    assert (tmp_path / "0.log").read_text().startswith("20")


@pytest.mark.case("attack-7")
async def test_much_output_is_complete_and_rotated(tmp_path: Path) -> None:
    script = "import sys\nfor i in range(40000): print(i, 'x' * 50)"
    launch = Launch(
        id="c",
        argv=[sys.executable, "-c", script],
        env=dict(PATH),
        log=str(tmp_path / "0.log"),
        log_bytes=1 << 20,
        log_files=8,
    )
    async with runtime() as node:
        assert (await end(await node.run(launch))).code == 0
    files = [
        path
        for path in (tmp_path / f"0.log{end}" for end in (*(f".{n}" for n in range(8, 0, -1)), ""))
        if path.exists()
    ]
    numbers = [int(line.split()[3]) for path in files for line in path.read_text().splitlines()]
    assert numbers == list(range(40000))
    assert len(files) > 2
    assert all(path.stat().st_size <= 1 << 20 for path in files)


async def test_the_process_has_the_environment_directory_and_hostname_given(tmp_path: Path) -> None:
    async with runtime() as node:
        launch = Launch(
            id="c",
            argv=["sh", "-c", "echo $A; pwd"],
            env={**PATH, "A": "b"},
            cwd=str(tmp_path),
            log=str(tmp_path / "0.log"),
        )
        await end(await node.run(launch))
    assert [text for _, _, text in log_lines(tmp_path)] == ["b", str(tmp_path)]


@pytest.mark.parametrize(
    ("argv", "cwd", "says"),
    [
        (["no-such-command"], "/", "executable file not found in $PATH"),
        (["/etc/passwd"], "/", "Permission denied"),
        (["true"], "/no/such/place", "workingDir /no/such/place"),
    ],
)
async def test_a_start_that_fails_says_why(tmp_path: Path, argv: list[str], cwd: str, says: str) -> None:
    async with runtime() as node:
        with pytest.raises(StartError) as caught:
            await node.run(Launch(id="c", argv=argv, env=dict(PATH), cwd=cwd, log=str(tmp_path / "0.log")))
    assert caught.value.stage == "start"
    assert says in str(caught.value)


async def test_a_mount_that_cannot_be_made_fails_the_creation(tmp_path: Path) -> None:
    async with runtime("mount", "user") as node:
        with pytest.raises(StartError) as caught:
            await node.run(shell(tmp_path, "true", mounts=[Mount("/no/such/source", "/mnt")]))
    assert caught.value.stage == "create"
    assert "/no/such/source" in str(caught.value)


async def test_exec_shares_the_view_and_ends_with_the_container(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    launch = shell(
        tmp_path, "echo hello > /data/file; sleep 1000", mounts=[Mount(str(tmp_path / "volume"), "/data")],
        scratch=str(tmp_path / "scratch"), hostname="pod-0",
    )  # fmt: skip
    (tmp_path / "scratch").mkdir()
    async with runtime("mount", "user") as node:
        container = await node.run(launch)
        await until((tmp_path / "volume" / "file").exists)
        out_reader, out_writer = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        reading = await node.execute(
            "c",
            ["sh", "-c", "cat /data/file; hostname"],
            env=dict(PATH),
            cwd="/",
            stdio=[null, out_writer, os.dup(null)],
        )
        assert (await end(reading)).code == 0
        with os.fdopen(out_reader) as output:
            assert output.read().split() == ["hello", "pod-0"]
        null = os.open(os.devnull, os.O_RDWR)
        waiting = await node.execute(
            "c", ["sleep", "1000"], env=dict(PATH), cwd="/", stdio=[null, os.dup(null), os.dup(null)]
        )
        node.stop("c", 0)
        await end(container)
        assert (await end(waiting)).signal == signal.SIGKILL
        with pytest.raises(StartError, match="not running"):
            await node.execute("c", ["true"], env=dict(PATH), cwd="/", stdio=[os.open(os.devnull, os.O_RDWR)])


async def test_attach_sees_output_and_reaches_input(tmp_path: Path) -> None:
    async with runtime() as node:
        container = await node.run(shell(tmp_path, "while read line; do echo got $line; done", stdin=True))
        reader, writer = os.pipe()
        input_fd = await node.attach("c", [writer])
        assert input_fd is not None
        os.write(input_fd, b"a\nb\n")
        os.close(input_fd)
        node.close_input("c")
        assert (await end(container)).code == 0
        with os.fdopen(reader) as output:
            assert output.read() == "got a\ngot b\n"
    assert [text for _, _, text in log_lines(tmp_path)] == ["got a", "got b"]


async def test_a_terminal_when_asked_for(tmp_path: Path) -> None:
    async with runtime() as node:
        assert (await end(await node.run(shell(tmp_path, "test -t 0 && test -t 1 && tty", tty=True)))).code == 0
    assert log_lines(tmp_path)[0][2].startswith("/dev/pts/")


async def test_closing_the_runtime_kills_everything(tmp_path: Path) -> None:
    async with runtime() as node:
        running = await node.run(
            shell(tmp_path, "trap '' TERM; setsid sleep 1000 & echo $!; while :; do sleep 1; done")
        )
        await until(lambda: (tmp_path / "0.log").stat().st_size)
        daemon = int(log_lines(tmp_path)[0][2])
        supervisor = node.pid
    assert not any(alive(pid) for pid in (running.pid, daemon, supervisor))
    assert running.ended.done()


async def test_a_killed_supervisor_takes_all_with_it_and_the_next_start_works(tmp_path: Path) -> None:
    async with runtime() as node:
        running = await node.run(shell(tmp_path, "setsid sleep 1000 & echo $!; sleep 1000"))
        await until(lambda: (tmp_path / "0.log").stat().st_size)
        daemon = int(log_lines(tmp_path)[0][2])
        os.kill(node.pid, signal.SIGKILL)
        outcome = await end(running)
        assert (outcome.code, outcome.lost) == (137, True)
        assert not alive(running.pid)
        assert not alive(daemon)
        again = await node.run(Launch(id="c2", argv=["true"], env=dict(PATH), log=str(tmp_path / "1.log")))
        assert (await end(again)).code == 0


async def test_a_next_start_cleans_what_a_killed_node_and_supervisor_left(tmp_path: Path) -> None:
    """Both are killed at once: only what was forked off the leader can survive that, and only until the next start."""
    script = f"""
import asyncio, os, signal, sys
from edl.embedded.node.runtime import Launch, Runtime
async def main():
    async with Runtime(owner="left-{os.getpid()}", modes=["none"]) as node:
        await node.run(Launch(id="c", argv=["sh", "-c", "setsid sleep 1000 & echo $!; sleep 1000"],
                              env=dict(os.environ), log={str(tmp_path / "0.log")!r}))
        while not os.path.getsize({str(tmp_path / "0.log")!r}): await asyncio.sleep(0.01)
        os.kill(node.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    victim = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await victim.wait()
    async with Runtime(owner=f"left-{os.getpid()}", modes=["none"]):
        assert not alive(int(log_lines(tmp_path)[0][2]))


async def test_many_starts_at_once(tmp_path: Path) -> None:
    async with runtime() as node:
        launches = [
            Launch(id=f"c{i}", argv=["sh", "-c", f"exit {i}"], env=dict(PATH), log=str(tmp_path / f"{i}.log"))
            for i in range(100)
        ]
        started = await asyncio.gather(*(node.run(launch) for launch in launches))
        assert [(await end(running)).code for running in started] == list(range(100))
