"""`examples/pytorch/elastic.py` with a compiled model; every compilation is written down."""

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.debugging import aot_eager

import edl.torch as elastic

SCRIPT = Path(__file__).parents[3] / "examples" / "pytorch" / "elastic.py"
FOLDER = Path(sys.argv[sys.argv.index("--trace") + 1])


def counting(graph: Any, inputs: Any) -> Any:
    with (FOLDER / f"{os.getpid()}.compiled").open("a") as file:
        file.write(f"{time.monotonic()}\n")
    return aot_eager(graph, inputs)


def main() -> None:
    prepare = elastic.prepare

    def compiled(model: Any, *args: Any, **kwargs: Any) -> Any:
        return prepare(torch.compile(model, backend=counting), *args, **kwargs)

    elastic.prepare = compiled
    runpy.run_path(str(SCRIPT), run_name="__main__")


if __name__ == "__main__":
    main()
