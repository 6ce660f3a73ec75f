"""`examples/pytorch/elastic.py` with places at which a test can hold a worker (see `aimed`), or make it fail; and with
a network that a test can take away between pods: what they would say to each other waits for ever.
"""

import contextlib
import faulthandler
import logging
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "pytorch" / os.environ.get("AIMED_SCRIPT", "elastic.py")
sys.path.insert(0, str(ROOT))

from edl.torch.engine import Engine  # noqa: E402
from edl.torch.rounds import group as groups  # noqa: E402
from edl.torch.rounds import next_group, reachability, transfer  # noqa: E402
from edl.torch.rounds.group import Group, GroupBrokenError, SupersededError  # noqa: E402
from tests.tier_frameworks.torchrun.aimed import FOLDER, after, before, reach  # noqa: E402 - after the path


def out_of_reach(agents: Sequence[str]) -> tuple[str, ...]:
    """Agents whose pods a test has parted from this one, in a file of pairs."""
    file, pod = Path(os.environ[FOLDER]) / "parted", os.environ["EDL_POD_NAME"]
    pairs = [set(line.split()) for line in file.read_text().splitlines()] if file.exists() else []
    return tuple(agent for agent in agents if {pod, agent.partition("/")[0]} in pairs)


def part_pods() -> None:
    """From now on a test can. Peers are asked sooner than they would be."""
    build, do = groups.build, Group._do

    def cut_off(round_: groups.Round, *, host: str, superseded: Callable[[], bool]) -> Group:
        out = out_of_reach(round_.members)
        if not out:
            return build(round_, host=host, superseded=superseded)
        if superseded():
            raise SupersededError
        raise GroupBrokenError("nobody answers", out)

    def silent(self: Group, begin: Callable[[], Any]) -> None:
        self._busy = time.monotonic()
        while out_of_reach(self.round.members) and not self._cut:
            time.sleep(0.01)
        do(self, begin)

    groups.build, Group._do = cut_off, silent  # type: ignore[method-assign]  # meant
    reachability.unreached = lambda agents, endpoints: out_of_reach(agents)
    next_group.LOOK, next_group.LONG = 0.1, 0.5


def lose_entries() -> None:
    """From now on a test can have the second worker of a pod lose its peers when all others have entered a round."""
    gather = Group.all_gather

    def lost(self: Group, numbers: list[int]) -> list[list[int]]:
        result = gather(self, numbers)
        if os.environ["LOCAL_RANK"] == "1":
            with contextlib.suppress(FileNotFoundError):  # nobody aims here, or another one was first
                folder = Path(os.environ[FOLDER])
                (folder / "entry.aim").rename(folder / "entry.taken")
                self.cut()
                raise GroupBrokenError("a connection was lost")
        return result

    Group.all_gather = lost  # type: ignore[method-assign]  # meant


def main() -> None:
    logging.basicConfig(level=logging.INFO)  # shown when a test fails
    faulthandler.register(signal.SIGUSR1)
    # It has said nothing yet; its structure went and no tensor did; the sum has come and nothing is applied.
    join = Engine.join

    def joining(self: Engine) -> None:
        if self.generation == 0:
            reach("joining")
        join(self)

    Engine.join = joining  # type: ignore[method-assign]  # meant
    transfer._bytes = before("sending", transfer._bytes)
    # The same part of the model of another pod waits for this one's; other parts are none of its business.
    place = f"shards-{os.environ['LOCAL_RANK']}"
    Group.all_reduce_shards = before(place, Group.all_reduce_shards)  # type: ignore[method-assign]  # meant
    Engine.commit = after("committed", Engine.commit)  # type: ignore[method-assign]  # meant
    step = Engine.step

    def held(self: Engine, *words: Any) -> Any:
        if os.environ.get("FAIL_AT") == str(self.state.cursor.step):
            raise RuntimeError("a fault of the script")
        if self.summed:
            reach("summed")
        return step(self, *words)

    Engine.step = held  # type: ignore[method-assign,assignment]  # meant
    part_pods()
    lose_entries()
    runpy.run_path(str(SCRIPT), run_name="__main__")


if __name__ == "__main__":
    main()
