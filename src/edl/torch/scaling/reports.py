"""Has the first rank report the pace of a training to the job service, in the words of `POST /progress`."""

from collections.abc import Mapping
from typing import Any

from edl.runtime.environment import Environment
from edl.runtime.torch.service_call import ProgressCall
from edl.torch.engine import Engine
from edl.torch.scaling.pace import Pace


def report_pace(engine: Engine, env: Mapping[str, str]) -> None:
    """From now on; nothing without a job service."""
    here = Environment.read(env)
    if not here.service_url:
        return
    pace = Pace(ProgressCall.of(here).send, every=here.usage_seconds)

    def committed() -> None:
        world = engine.world
        if world.rank == 0:
            pace.add(world.generation, engine.samples, lambda: figures(engine))

    engine.on_commit.append(committed)


def figures(engine: Engine) -> Mapping[str, Any]:
    """What is known beside the throughput; what is not is None."""
    cursor, growth = engine.state.cursor, engine.growth
    done = cursor.epoch * growth.batches + cursor.batch
    return {
        "workers": engine.members.agents,
        "done": done if growth.batches else cursor.step,
        "total": engine.epochs * growth.batches or None,
        "epoch": cursor.epoch,
        "pause": engine.members.pause or None,
        "batch": growth.batch or None,
        "tuned_batch": growth.tuned or None,
        "noise": growth.noise.scale,
    }
