"""`python -m tests.soak MINUTES`: jobs of all kinds on an embedded cluster, under faults without an end.

It ends with every job right and with memory, descriptors, store and logs bounded, or with 1 and the reason. The figures
are printed.
"""

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from edl.kube.rest.client import Client
from tests.soak.faults import Faults, half_open
from tests.soak.jobs import Made, phases, submit
from tests.soak.measured import Figures, sample
from tests.stories.machine import Machine, machine, reach

DISK = "256m"
AT_A_TIME = 2  # waves of jobs
BETWEEN_FAULTS = 15.0
LAST_JOBS = 300.0
UP = ("up", "--foreground", "--nodes", "2", "--cpu", "4", "--memory", "4Gi")


@contextlib.contextmanager
def small_disk(home: Path) -> Iterator[bool]:
    """A file system of its own that can be filled; False where that is not allowed."""
    home.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(home)], check=False, capture_output=True
        ).returncode
    ):
        print("no small disk can be mounted here: none is filled", flush=True)
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=False)


async def keep_busy(client: Client, made: list[Made], until: float) -> None:
    """New waves of jobs, as many at a time, as long as there is time for them."""
    number = 0
    while time.monotonic() < until:
        found = await phases(client, made[-3 * AT_A_TIME :])
        if sum(phase not in ("succeeded", "failed") for phase in found.values()) <= 3 * (AT_A_TIME - 1):
            made += await submit(client, number)
            number += 1
        await asyncio.sleep(1.0)


async def disturb(faults: Faults, until: float) -> None:
    for number in range(10**9):
        await asyncio.sleep(BETWEEN_FAULTS)
        if time.monotonic() >= until:
            return
        await faults.one(number)


async def measure(cluster: Machine, figures: Figures) -> None:
    while True:
        with contextlib.suppress(psutil.Error, OSError):
            figures.add(sample(psutil.Process(cluster.pid("up")), cluster.home))
        await asyncio.sleep(2.0)


async def tell(made: list[Made], faults: Faults, figures: Figures) -> None:
    """How it goes, once a minute."""
    while True:
        await asyncio.sleep(60.0)
        done = f"{len(made)} jobs, {sum(faults.counted.values())} faults"
        print(f"{time.strftime('%H:%M')}  {done}, {figures.now()}", flush=True)


async def all_ended(client: Client, made: list[Made]) -> dict[str, str]:
    deadline = time.monotonic() + LAST_JOBS
    while True:
        found = await phases(client, made)
        if all(phase in ("succeeded", "failed") for phase in found.values()) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(1.0)


async def soak(minutes: float, root: Path) -> int:
    figures, made = Figures(), list[Made]()
    with small_disk(root / "home") as small:
        async with machine(root, [("up", UP)], nodes=2) as cluster:
            client = await reach(cluster, 2)
            faults = Faults(cluster, small_disk=small, random_=random.Random(1))
            until = time.monotonic() + 60 * minutes
            beside = [
                asyncio.create_task(measure(cluster, figures)),
                asyncio.create_task(half_open(cluster.kubeconfig)),
                asyncio.create_task(tell(made, faults, figures)),
            ]
            try:
                await asyncio.gather(keep_busy(client, made, until), disturb(faults, until))
                found = await all_ended(client, made)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
                await client.close()
    print(figures.table())
    print(", ".join(f"{count} {what}" for what, count in faults.counted.items()) or "no fault")
    wrong = {name: phase or "unknown" for name, phase in found.items() if phase != "succeeded"}
    print(f"{len(found) - len(wrong)} of {len(found)} jobs succeeded")
    for name, phase in wrong.items():
        print(f"wrong: {name} is {phase}")
    for name in figures.exceeded():
        print(f"wrong: {name} is above its bound")
    return 1 if wrong or figures.exceeded() or not found else 0


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory(prefix="edl-soak-") as root:
        return asyncio.run(soak(minutes, Path(root)))


if __name__ == "__main__":
    sys.exit(main())
