"""`make chaos MINUTES=10`: random cases for so long, then the ledger is checked. SEED=n repeats a run's cases.

With `--workers 2` each pod has two workers, which share a model (`fully_shard`).
"""

import argparse
import os
import secrets
import tempfile
import time
from pathlib import Path

from edl.runtime.torch.warm_workers import Zygote
from tests.tier_frameworks.chaos.cases import Chaos
from tests.tier_frameworks.torchrun.pods import SCRIPT, job

SHARDED = SCRIPT.with_name("elastic_sharded.py")
SILENCE = 6.0  # seconds after which a worker that does not answer is started anew


def run(folder: Path, zygote: Zygote, seconds: float, seed: int, workers: int = 1) -> str:
    """What happened, in a line."""
    print(f"chaos: seed {seed}", flush=True)
    with job(folder, zygote, silence=SILENCE, script=SHARDED if workers > 1 else SCRIPT) as made:
        chaos = Chaos(made, seed, workers)
        began = time.monotonic()
        chaos.run(seconds)
        took = time.monotonic() - began
        made.assert_exact()
        steps, epochs = made.lines("did")[-1]["step"], len(made.samples())
    cases = ", ".join(f"{count} {name}" for name, count in sorted(chaos.done.items()))
    whole = f"{sum(chaos.done.values())} cases ({cases}), {steps} steps, {epochs} epochs"
    return f"chaos: seed {seed}, {took:.0f} s, {whole}: 0 steps lost, 0 samples repeated, 0 missing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--workers", type=int, default=1, help="of each pod")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    warm = {
        "PATH": os.environ["PATH"],
        "OMP_NUM_THREADS": "1",
        "EDL_WARM_IMPORTS": "edl.torch.api,torch.distributed.fsdp",
    }
    zygote = Zygote.start(warm)
    assert zygote is not None
    assert zygote.wait_until_warm(300.0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(run(Path(folder), zygote, 60 * options.minutes, seed, options.workers), flush=True)
    finally:
        zygote.close()


if __name__ == "__main__":
    main()
