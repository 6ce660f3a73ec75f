"""Pauses of training when a worker is killed, joins or leaves: torchrun with c10d as it comes, with c10d tuned as
well as is known, with EDL's rendezvous, and with checkpoints in memory besides; and what the rendezvous alone takes.

Every row is the same unmodified script (examples/pytorch/train.py) on three agents of one worker each, but for the one
whose checkpoints are in memory (train_checkpointer.py); each saves every five steps. A pause is the time between the
last step of the old group and the first step of the new one, as the workers themselves noted it. Steps done again are
those that the old group had done already.
Needs torch: `make bench-frameworks`. All raw times are printed.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.tier_frameworks.torchrun.group import SCRIPT, Group, Leader  # noqa: E402 - after the path

from edl.operator.job_service import JobRecord, JobService, MemoryStore  # noqa: E402
from edl.protocol.rendezvous import Hello  # noqa: E402
from edl.runtime.torch.agent_state import AgentState  # noqa: E402
from edl.runtime.torch.connection import Address, RendezvousConnection  # noqa: E402

EVENTS = {"kill": (3, 2), "join": (2, 3), "leave": (3, 2)}  # how many train before and after
STUCK = 100.0  # an event that takes longer is given up: twice what torchrun's own timeouts add up to
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""torchrun keeps one store for all rounds, in which workers find what those before them left, and may be stuck."""


@dataclass
class Way:
    name: str
    backend: str
    conf: str = ""
    env: dict[str, str] = field(default_factory=dict)
    script: Path = SCRIPT


WAYS = (
    Way("c10d, defaults", "c10d"),
    Way("c10d, a store per round", "c10d", "", NEW_STORE),
    Way("c10d, tuned", "c10d", "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3", NEW_STORE),
    Way("edl, workers not kept warm", "edl", "warm=0"),
    Way("edl, Checkpointer", "edl", script=SCRIPT.with_name("train_checkpointer.py")),
    Way("edl", "edl"),
)


class Pause(NamedTuple):
    seconds: float
    again: int
    """Steps that were done a second time."""


class Stage:
    """Three agents; the first one is never touched, because with c10d nobody survives it."""

    def __init__(self, way: Way, folder: Path, leader: Leader) -> None:
        self._way, self._group = way, Group(folder, leader, nnodes="2:4", script=way.script)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
        self._leader, self._next = leader, 0
        self._left: list[subprocess.Popen[bytes]] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            pod = f"w{self._next}"
            self._next += 1
            self._leader.edit(target=len(self._group.agents) + 1)
            env = {"PET_RDZV_BACKEND": self._way.backend, "PET_RDZV_CONF": self._way.conf, **self._way.env}
            if self._way.backend == "c10d":
                host = f"is_host={int(pod == 'w0')}"  # else any of them may hold the store, and take all others along
                conf = ",".join(filter(None, (self._way.conf, host)))
                env |= {"PET_RDZV_ENDPOINT": self._endpoint, "PET_MAX_RESTARTS": "20", "PET_RDZV_CONF": conf}
            self._group.train(pod, pause=0.1, env=env)

    def pause(self, event: str, before: int, after: int) -> Pause | None:
        """None if training did not come back."""
        if self._wait(before, time.monotonic(), count=5) is None:
            return None
        victim = max(self._group.agents)
        since = time.monotonic()
        if event == "kill":
            self._group.kill(victim)
        elif event == "leave":
            self._left.append(self._group.agents.pop(victim))
            self._left[-1].send_signal(signal.SIGTERM)
        else:
            self.start(1)
        first = self._wait(after, since, count=1)
        if first is None:
            return None
        lines = self._group.steps()
        old = [line for line in lines if line["world"] == before and line["at"] < first]
        begun = min(line["step"] for line in lines if line["world"] == after and line["at"] >= first)
        again = max(0, max(line["step"] for line in old) + 1 - begun)
        return Pause(first - max(line["at"] for line in old), again)

    def _wait(self, world: int, since: float, count: int) -> float | None:
        end = time.monotonic() + STUCK
        while time.monotonic() < end:
            steps: list[float] = [
                line["at"] for line in self._group.steps() if line["world"] == world and line["at"] > since
            ]
            if len(steps) >= count:
                return min(steps)
            time.sleep(0.05)
        return None

    def close(self) -> None:
        self._group.close()
        for process in self._left:
            process.wait()


@contextlib.contextmanager
def stage(way: Way, agents: int) -> Iterator[Stage]:
    leader = Leader()
    with tempfile.TemporaryDirectory() as folder:
        made = Stage(way, Path(folder), leader)
        try:
            made.start(agents)
            yield made
        finally:
            made.close()
            leader.close()


def run(way: Way, pauses: dict[str, list[Pause | None]]) -> None:
    """One pause of each kind, as far as they get."""
    with stage(way, 3) as made:
        for event, (before, after) in EVENTS.items():
            took = made.pause(event, before, after)
            pauses[event].append(took)
            shown = "stuck" if took is None else f"{took.seconds:.2f} s, {took.again} steps done again"
            print(f"{way.name}: {event} {shown}", flush=True)
            if took is None:
                break


Found = dict[str, dict[str, list[Pause | None]]]


def report(found: Found) -> None:
    none: dict[str, list[Pause | None]] = {event: [] for event in EVENTS}
    ours = {event: _median(found.get(WAYS[-1].name, none)[event]) for event in EVENTS}
    print(f"{'pause of training (s)':<28}" + "".join(f"{event:>8} {'x edl':>7}  raw{'':<14}" for event in EVENTS))
    for name, pauses in found.items():
        cells = []
        for event in EVENTS:
            median, own = _median(pauses[event]), ours[event]
            ratio = f"{median / own:.1f}" if median is not None and own else "-"
            raw = " ".join("stuck" if one is None else f"{one.seconds:.2f}" for one in pauses[event])
            shown = f"{median:.2f}" if median is not None else f"> {STUCK:g}" if pauses[event] else "-"
            cells.append(f"{shown:>8} {ratio:>7}  {raw:<17}")
        print(f"{name:<28}" + "".join(cells))
    for name, wanted in zip((way.name for way in WAYS), (10, 10, 4), strict=False):
        tried, own = found.get(name, none)["kill"], ours["kill"]
        if tried and own:
            least = min(STUCK if one is None else one.seconds for one in tried)
            print(f"a kill stops training {least / own:.1f} times as long with {name} as with edl (wanted: {wanted})")


def report_repeated(found: Found) -> None:
    for name, pauses in found.items():
        steps = {event: [one.again for one in pauses[event] if one is not None] for event in EVENTS}
        print(f"{name:<28}steps done again: " + ", ".join(f"{event} {steps[event]}" for event in EVENTS))


def _median(values: list[Pause | None]) -> float | None:
    known = [value.seconds for value in values if value is not None]
    return statistics.median(known) if known else None


async def rendezvous_alone(agents: int) -> list[float]:
    """Milliseconds from the operator's word that a pod is gone until the last survivor has its place again."""
    names = [f"w{n}" for n in range(agents)]
    record = JobRecord(uid="u", token="t", target=agents, pods=frozenset(names))
    service = JobService(MemoryStore(), lambda namespace, name: [record])
    service.lead()
    runner = await service.serve("127.0.0.1", 0)
    address = Address(f"http://127.0.0.1:{runner.addresses[0][1]}/v1/jobs/ns/j/rendezvous", "t")
    by_name: dict[str, RendezvousConnection] = {}
    tasks = []
    for name in names:
        state = AgentState(Hello(agent=f"{name}/1", run="r", minimum=1, maximum=agents))
        state.wait(f"{name}:1")
        by_name[name] = RendezvousConnection(address, state, changed=_again(by_name, name))
        tasks.append(asyncio.create_task(by_name[name].run()))
    times = []
    for gone in names[: agents // 2]:
        number = 1 + names.index(gone)
        await _until(lambda n=number: all(connection.state.number == n for connection in by_name.values()))  # type: ignore[misc]  # mypy: a default is no argument
        by_name.pop(gone)
        began = time.perf_counter()
        record = JobRecord(uid="u", token="t", target=agents, pods=frozenset(by_name))
        service.changed(("ns", "j", "edl"))
        await _until(lambda n=number: all(connection.state.number == n + 1 for connection in by_name.values()))  # type: ignore[misc]  # as above
        times.append((time.perf_counter() - began) * 1000)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    service.retire()
    await runner.cleanup()
    return times


def _again(by_name: dict[str, RendezvousConnection], name: str) -> Callable[[], None]:
    def changed() -> None:
        connection = by_name.get(name)
        if connection and connection.state.stale:
            connection.state.wait(f"{name}:{connection.state.number + 1}")
            connection.state.stale = ""
            connection.report_changed()

    return changed


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of every way; c10d as it comes takes four minutes each")
    parser.add_argument("--only", default="", help="ways whose name contains this")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no agent is left behind
    for agents in (2, 8, 64):
        times = asyncio.run(rendezvous_alone(agents))
        print(
            f"rendezvous alone, {agents:>2} agents: median {statistics.median(times):.1f} ms, most {max(times):.1f} ms"
        )
    if importlib.util.find_spec("torch") is None:
        print("pauses of training are not measured: torch is not installed here; `make bench-frameworks` does it")
        return
    ways = [way for way in WAYS if options.only in way.name]
    found: Found = {way.name: {event: [] for event in EVENTS} for way in ways}
    try:
        for _ in range(options.rounds):
            for way in reversed(ways):  # the slowest last
                run(way, found[way.name])
    finally:
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        report(found)
        report_repeated(found)


if __name__ == "__main__":
    main()
