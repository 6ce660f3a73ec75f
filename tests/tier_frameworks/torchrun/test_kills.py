"""kill -9 of a worker process, of a whole agent, of a node and of the operator, each while a worker is in the middle of
a step, of a rendezvous and of a checkpoint, on the embedded cluster.

Whoever is at the aimed place is the victim, or dies with its node; the operator dies while somebody is there.
"""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.stories.backend import ProcessBackend, embedded
from tests.stories.processes import kill_pod, of_pod
from tests.stories.story import Story
from tests.tier_frameworks.torchrun.aimed import FOLDER, Aim, Hit
from tests.tier_frameworks.torchrun.training import EVERY, ROOT, Training

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]
AIMED = "python tests/tier_frameworks/torchrun/aimed.py tests/tier_frameworks/torchrun/aimed.py"

# Who dies where, and how many rounds follow at most: one without the victim, one with its successor, one in which a
# victim was counted that never came.
ROUNDS = {
    "worker": {"step": 1, "joining": 2, "checkpoint": 1},
    "agent": {"step": 2, "arriving": 2, "meeting": 3, "checkpoint": 2},
    "node": {"step": 2, "meeting": 3, "checkpoint": 2},
    "operator": {"step": 0, "arriving": 1, "meeting": 1, "checkpoint": 0},
}
REGROUPING = ("arriving", "meeting", "joining")


class Scene:
    """A job of one or two workers, each on a node of its own that can be lost."""

    def __init__(self, backend: ProcessBackend, training: Training, aim: Aim) -> None:
        self.backend, self.training, self.aim, self._nodes = backend, training, aim, 0

    async def add_node(self) -> None:
        self._nodes += 1
        await self.backend.add_node(f"machine-{self._nodes}", "1")

    async def strike(self, who: str, place: str) -> None:
        training = self.training
        before = await training.round()
        self.aim.at(place)
        if place in REGROUPING:
            await self.disturb()
        hit: Hit = await training.elastic.until(self.aim.hit, f"somebody is at {place}")
        saved, known = training.saved, {line["pid"] for line in training.steps()}
        await self.killers[who](hit)
        hit.file.unlink()
        await training.until_world(2)
        rounds = await training.round() - before
        assert rounds <= ROUNDS[who][place], f"{rounds} rounds after the {who} was killed at {place}"
        fresh = [line["step"] for line in training.steps() if line["pid"] not in known]
        assert bool(fresh) == (rounds > 0), "workers are started anew for a new round, and for nothing else"
        for first in fresh[:1]:
            assert first > saved, "a checkpoint that was whole is not lost"
            assert first % EVERY == 1, "training goes on from a checkpoint"

    async def disturb(self) -> None:
        """So that all meet again."""
        name = (await self.training.elastic.workers())[0]
        os.kill(of_pod(self.training.uid, name)[-1], signal.SIGKILL)  # the youngest process of a pod trains

    @property
    def killers(self) -> dict[str, Callable[[Hit], Awaitable[None]]]:
        return {"worker": self._worker, "agent": self._agent, "node": self._node, "operator": self._operator}

    async def _worker(self, hit: Hit) -> None:
        os.kill(hit.pid, signal.SIGKILL)

    async def _agent(self, hit: Hit) -> None:
        assert hit.pid in kill_pod(self.training.uid, hit.pod)

    async def _node(self, hit: Hit) -> None:
        node = (await self.training.elastic.pod(hit.pod))["spec"]["nodeName"]
        await self.backend.lose_node(node)
        await self.add_node()

    async def _operator(self, hit: Hit) -> None:
        await self.backend.kill_operator()


@contextlib.asynccontextmanager
async def scene(folder: Path, *, machines: bool) -> AsyncIterator[Scene]:
    """`machines`: nodes are processes of their own, and there is no room but on them."""
    async with embedded(folder, nodes=1, cpu="100m" if machines else "4", working_dir=ROOT) as backend:
        made = Scene(backend, Training(await Story.begin(backend), folder), Aim(folder / "aim"))
        for _ in range(2 if machines else 0):
            await made.add_node()
        env = {FOLDER: str(made.aim.folder), "PET_MAX_RESTARTS": "20"}
        await made.training.submit(1, 2, cpu="800m", command=AIMED, env=env)
        await made.training.until_world(2)
        await made.training.elastic.until(made.training.has_saved, "a checkpoint")
        yield made


@pytest.mark.parametrize("who", ROUNDS)
async def test_killed_in_the_middle_of_anything(tmp_path: Path, who: str) -> None:
    async with scene(tmp_path, machines=who == "node") as made:
        for place in ROUNDS[who]:
            await made.strike(who, place)
        assert await made.training.failed() == (len(ROUNDS[who]) if who == "agent" else 0)
        await made.training.elastic.until_phase("Running")
