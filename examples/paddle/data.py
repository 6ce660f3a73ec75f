"""Makes the data of the two examples: `python data.py line|clicks DIRECTORY`. The same files whoever makes them.

Each file appears whole, so that trainers which start together may all make them.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

FILES, ROWS = int(os.environ.get("FILES", "8")), int(os.environ.get("ROWS", "640"))
FEATURES, SLOTS, CATEGORIES = 13, 4, 50


def line(rng: np.random.Generator) -> Iterable[str]:
    """y = w.x + 3, with w from -1 to 1 in even steps."""
    x = rng.normal(size=(ROWS, FEATURES))
    for row, y in zip(x, x @ np.linspace(-1, 1, FEATURES) + 3, strict=True):
        yield f"{FEATURES} {' '.join(f'{value:.5f}' for value in row)} 1 {y:.5f}\n"


def clicks(rng: np.random.Generator) -> Iterable[str]:
    """Every category of every slot speaks for a click or against it, and nothing else does."""
    pull = np.random.default_rng(1).choice([-1.5, 1.5], size=(SLOTS, CATEGORIES))
    ids = rng.integers(0, CATEGORIES, size=(ROWS, SLOTS))
    odds = pull[np.arange(SLOTS), ids].sum(axis=1)
    clicked = rng.random(ROWS) < 1 / (1 + np.exp(-odds))
    for row, click in zip(ids + np.arange(SLOTS) * CATEGORIES, clicked, strict=True):
        yield f"{' '.join(f'1 {number}' for number in row)} 1 {int(click)}\n"


def main(kind: str, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    make = {"line": line, "clicks": clicks}[kind]
    for number, name in enumerate([*(f"part-{index:03}" for index in range(FILES)), "unseen"]):
        whole = directory / f".{name}.{os.getpid()}"
        whole.write_text("".join(make(np.random.default_rng([7, number]))))
        whole.replace(directory / name)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
