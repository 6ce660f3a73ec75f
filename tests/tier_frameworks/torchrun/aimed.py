"""torchrun and the example's script, each with places at which a test can hold it: nothing is left to chance.

Started as a program it is torchrun; started by torchrun it is the unmodified `examples/pytorch/train.py`. Whoever first
comes to a place that a test aims at takes the aim, and stays there until it is killed or let go.
"""

import io
import os
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "pytorch" / "train.py"
FOLDER = "AIM_FOLDER"
HELD_FOR = 120.0


class Hit(NamedTuple):
    """Who stays at the place."""

    file: Path
    pod: str
    pid: int


class Aim:
    """The test's side: one place at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def at(self, place: str) -> None:
        (self.folder / f"{place}.aim").touch()

    async def hit(self) -> Hit | None:
        for file in self.folder.glob("*.hit"):
            _, pod, pid, _ = file.name.split(".")
            return Hit(file, pod, int(pid))
        return None


def reach(place: str) -> None:
    """This process is at the place now."""
    folder = Path(os.environ[FOLDER])
    taken = folder / f"{place}.{os.environ['EDL_POD_NAME']}.{os.getpid()}.hit"
    try:
        (folder / f"{place}.aim").rename(taken)
    except FileNotFoundError:  # nobody aims here, or another one was first
        return
    end = time.monotonic() + HELD_FOR
    while taken.exists() and time.monotonic() < end:
        time.sleep(0.01)


def before(place: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def held(*args: Any, **kwargs: Any) -> Any:
        reach(place)
        return call(*args, **kwargs)

    return held


def after(place: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def held(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        reach(place)
        return result

    return held


def agent() -> None:
    from torch.distributed.run import main

    from edl.runtime.torch.handler import EdlHandler

    # It has not said yet that it waits; it has a place in a round, and the others count on it.
    EdlHandler.next_rendezvous = before("arriving", EdlHandler.next_rendezvous)  # type: ignore[method-assign]  # meant
    EdlHandler._wait_for_round = after("meeting", EdlHandler._wait_for_round)  # type: ignore[method-assign]  # meant
    main()


def worker() -> None:
    import torch

    torch.distributed.init_process_group = before("joining", torch.distributed.init_process_group)
    torch.Tensor.backward = before("step", torch.Tensor.backward)  # its peers are in the collective already
    torch.save = _saving(torch.save)
    runpy.run_path(str(SCRIPT), run_name="__main__")


def _saving(save: Callable[..., Any]) -> Callable[..., Any]:
    def half(state: object, path: Path) -> None:
        buffer = io.BytesIO()
        save(state, buffer)
        content = buffer.getvalue()
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            reach("checkpoint")
            file.write(content[len(content) // 2 :])

    return half


if __name__ == "__main__":
    worker() if "LOCAL_RANK" in os.environ else agent()
