"""Ends of containers: signals, graces, memory, and whatever kills the supervisor or the node."""

import sys
from pathlib import Path

import pytest
from tests.embedded.node.containers import PATH, alive, end, log_lines, runtime, shell, stdout, until

from edl.embedded.node.runtime import Launch


async def test_stop_sends_sigterm_to_the_whole_group(tmp_path: Path) -> None:
    child = "(trap 'echo child; exit' TERM; echo ready; while :; do sleep 0.01; done)"
    script = f"{child} & trap 'wait; echo parent; exit 143' TERM; wait"
    async with runtime() as node:
        running = await node.run(shell(tmp_path, script))
        await until(lambda: (tmp_path / "0.log").stat().st_size)
        node.stop("c", 20)
        outcome = await end(running)
    assert outcome.code == 143
    assert stdout(tmp_path) == ["ready", "child", "parent"]


async def test_a_child_keeps_its_grace_when_the_leader_is_gone(tmp_path: Path) -> None:
    script = "(trap 'sleep 0.2; echo saved; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait"
    async with runtime() as node:
        running = await node.run(shell(tmp_path, script))
        await until(lambda: (tmp_path / "0.log").stat().st_size)
        node.stop("c", 20)
        assert (await end(running)).code == 143
    assert stdout(tmp_path) == ["ready", "saved"]


async def test_sigkill_follows_after_the_grace(tmp_path: Path) -> None:
    async with runtime() as node:
        running = await node.run(shell(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.01; done"))
        await until(lambda: (tmp_path / "0.log").stat().st_size)
        node.stop("c", 0.1)
        outcome = await end(running)
    assert (outcome.code, outcome.signal) == (137, 9)


async def test_whatever_the_leader_left_in_its_group_dies_with_it(tmp_path: Path) -> None:
    async with runtime() as node:
        running = await node.run(shell(tmp_path, "sleep 1000 & echo $!"))
        assert (await end(running)).code == 0
        child = int(log_lines(tmp_path)[0][2])
        await until(lambda: not alive(child))


@pytest.mark.parametrize(
    "escape", ["setsid sleep 1000 & echo $!", "setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2"]
)
async def test_what_left_the_group_dies_soon_after(tmp_path: Path, escape: str) -> None:
    async with runtime() as node:
        running = await node.run(shell(tmp_path, escape))
        assert (await end(running)).code == 0
        child = int(log_lines(tmp_path)[0][2])
        await until(lambda: not alive(child))


async def test_another_containers_daemon_is_spared_by_the_sweep(tmp_path: Path) -> None:
    async with runtime() as node:
        daemon = await node.run(
            Launch(
                id="d",
                argv=["sh", "-c", "setsid sleep 1000 & echo $!; sleep 1000"],
                env=dict(PATH),
                log=str(tmp_path / "0.log"),
            )
        )
        await until(lambda: (tmp_path / "0.log").stat().st_size)
        child = int(log_lines(tmp_path)[0][2])
        (tmp_path / "e").mkdir()
        escape = ["sh", "-c", "setsid sleep 1000 & echo $!"]
        await end(await node.run(Launch(id="e", argv=escape, env=dict(PATH), log=str(tmp_path / "e" / "0.log"))))
        left = int(log_lines(tmp_path / "e")[0][2])
        await until(lambda: not alive(left))  # a sweep has happened
        assert alive(child)
        node.stop("d", 0)
        await end(daemon)
        await until(lambda: not alive(child))


async def test_above_the_memory_limit_it_is_killed_as_out_of_memory(tmp_path: Path) -> None:
    hog = Launch(
        id="c",
        argv=[sys.executable, "-c", "x = bytearray(200 << 20); import time; time.sleep(100)"],
        env=dict(PATH),
        log=str(tmp_path / "0.log"),
        memory_limit=100 << 20,
    )
    async with runtime() as node:
        outcome = await end(await node.run(hog))
    assert (outcome.code, outcome.out_of_memory) == (137, True)


async def test_memory_shared_by_forked_workers_counts_once(tmp_path: Path) -> None:
    script = "import os, time; x = bytearray(60 << 20); [os.fork() for _ in range(2)]; time.sleep(2.5)"
    shared = Launch(
        id="c", argv=[sys.executable, "-c", script], env=dict(PATH), log=str(tmp_path / "0.log"), memory_limit=150 << 20
    )
    async with runtime() as node:
        outcome = await end(await node.run(shared))
    assert (outcome.code, outcome.out_of_memory) == (0, False)
