"""How good the Brain's decisions are, and how fast.

Regret: decisions are replayed on recorded samples (bench/brain/recorded/*.json: real processes, every size measured)
and the samples trained in an hour are compared with those of the best fixed size known afterwards. Beside it, on the
same samples, the nine rules of the Brain that went before, and the workers that each had on average. Speed: a start-up
and a running plan with 10,000 past jobs in SQLite; reports per second over HTTP, durable when answered, beside the same
requests answered without doing anything. Nothing is asserted.

    python bench/bench_brain.py [--quick] [--record]
"""

import argparse
import asyncio
import json
from pathlib import Path

import msgspec
from bench.brain.recordings import JOBS, Recording, record
from bench.brain.replay import regrets
from bench.brain.speed import plans, reports

RECORDED = Path(__file__).parent / "recorded"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer replays, past jobs and seconds")
    parser.add_argument("--record", action="store_true", help="measure the recordings again (about five minutes)")
    options = parser.parse_args()
    if options.record:
        RECORDED.mkdir(exist_ok=True)
        for name, (own, shared) in JOBS.items():
            made = msgspec.to_builtins(record(name, own, shared), str_keys=True)
            (RECORDED / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    files = sorted(RECORDED.glob("*.json"))
    recordings = [msgspec.json.decode(file.read_bytes(), type=Recording) for file in files]
    regrets(recordings, 5 if options.quick else 20)
    asyncio.run(plans(1_000 if options.quick else 10_000))
    reports(2.0 if options.quick else 5.0)


if __name__ == "__main__":
    main()
