"""The all-reduce example, which waits at its checkpoints from step HOLD_AT on until the file HOLD_UNTIL is there.

A test sees a size, changes it, and sees the next one, however long workers take to start on a busy machine.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from examples.easydl import allreduce

save = allreduce.save


def save_and_hold(path: Path, state: dict[str, Any]) -> None:
    save(path, state)
    while state["step"] >= int(os.environ["HOLD_AT"]) and not Path(os.environ["HOLD_UNTIL"]).exists():
        time.sleep(0.05)


if __name__ == "__main__":
    allreduce.save = save_and_hold
    allreduce.main()
