"""The all-reduce example, which takes its time (--pause) for a step until the file HURRY_AFTER is there.

A test sees workers come, however long they take to start on a busy machine, and need not wait long for the end.
"""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[3]))

from examples.easydl import allreduce


def sleep(seconds: float) -> None:
    if not Path(os.environ["HURRY_AFTER"]).exists():
        time.sleep(seconds)


if __name__ == "__main__":
    vars(allreduce)["time"] = SimpleNamespace(sleep=sleep)
    allreduce.main()
