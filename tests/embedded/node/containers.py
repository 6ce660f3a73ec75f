"""A runtime of the tests' own, containers in it, and what is seen of them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edl.embedded.node.runtime import Exit, Launch, RunningProcess, Runtime
from edl.embedded.node.supervisor import processes

PATH = {"PATH": os.environ["PATH"]}


@asynccontextmanager
async def runtime(*modes: str) -> AsyncIterator[Runtime]:
    async with Runtime(owner=f"test-{os.urandom(4).hex()}", modes=modes or ("none",)) as started:
        yield started


def shell(tmp_path: Path, script: str, **more: object) -> Launch:
    return Launch(id="c", argv=["sh", "-c", script], env=dict(PATH), log=str(tmp_path / "0.log"), **more)  # type: ignore[arg-type]


async def end(running: RunningProcess) -> Exit:
    async with asyncio.timeout(30):
        return await running.ended


def log_lines(tmp_path: Path) -> list[tuple[str, str, str]]:
    lines = (tmp_path / "0.log").read_text().splitlines()
    return [(stream, tag, text) for _, stream, tag, text in (line.split(" ", 3) for line in lines)]


def stdout(tmp_path: Path) -> list[str]:
    return [text for stream, _, text in log_lines(tmp_path) if stream == "stdout"]


async def until(condition: object) -> None:
    async with asyncio.timeout(30):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return pid in processes.table()
