"""Twenty changes of members leave no trace in the loss: its curve is one of those that static runs have.

Static runs of different sizes differ by the order in which floating-point numbers are added, which training amplifies.
That is the band. A single sample more, fewer or wrongly weighted leaves it.
"""

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from edl.runtime.torch.warm_workers import Zygote
from tests.tier_frameworks.torchrun.pods import Pods, job

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
SCRIPT = Path(__file__).with_name("loss_living.py")
CHANGES, SIZES, STEPS_OF_AN_EPOCH = 20, (1, 2, 3), 11
LEAST = 1e-6  # of the band: single precision

Curve = dict[int, float]


def curve(made: Pods) -> Curve:
    """The loss after every step, as of the last round in which it was done."""
    found: dict[int, tuple[int, float]] = {}
    for line in made.lines("did"):
        found[line["step"]] = max(found.get(line["step"], (0, 0.0)), (line["generation"], line["loss"]))
    return {step: loss for step, (_, loss) in sorted(found.items())}


def changed(folder: Path, zygote: Zygote) -> Curve:
    """Between one worker and three; every other departure is a kill."""
    folder.mkdir()
    with job(folder, zygote, script=SCRIPT) as made:
        made.start("p0")
        made.until_steps(1)
        for number in range(1, CHANGES + 1):
            change(made, number)
            made.until_steps(len(made.pods), more=2)
        made.assert_exact()
        return curve(made)


def change(made: Pods, number: int) -> None:
    if number % 4 in (1, 2):
        made.start(f"p{number}")
    elif number % 4 == 3:
        made.terminate(min(made.pods))
    else:
        made.kill(min(made.pods))


def static(folder: Path, zygote: Zygote, size: int, steps: int, **options: Any) -> Curve:
    folder.mkdir()
    names = [f"p{number}" for number in range(size)]
    with job(folder, zygote, script=SCRIPT, minimum=size) as made:
        made.start(*names, epochs=-(-steps // STEPS_OF_AN_EPOCH), pause=0.0, **options)
        assert [made.code(name) for name in names] == [0] * size
        return curve(made)


def outside(tried: Curve, band: list[Curve]) -> dict[int, float]:
    """Steps at which a curve is farther from all others than these ever were from each other until then."""
    low, high = ([edge(one[step] for one in band) for step in sorted(tried)] for edge in (min, max))
    widths = accumulate((max(most - least, LEAST) for least, most in zip(low, high, strict=True)), max)
    found = zip(sorted(tried), low, high, widths, strict=True)
    return {step: tried[step] for step, least, most, width in found if not least - width <= tried[step] <= most + width}


def test_the_loss_with_twenty_changes_is_that_of_static_runs(tmp_path: Path, zygote: Zygote) -> None:
    tried = changed(tmp_path / "changed", zygote)
    steps = max(tried)
    assert sorted(tried) == list(range(1, steps + 1))
    band = [static(tmp_path / f"static-{size}", zygote, size, steps) for size in SIZES]
    assert tried[steps] < tried[1] / 2, "it learns"
    assert not outside(tried, band)
    other = static(tmp_path / "other", zygote, 2, steps, batch=95)
    assert outside({step: other[step] for step in tried}, band), "one sample fewer in each batch is seen"
