"""How good the Brain's decisions are, and how fast.

Regret: decisions are replayed on recorded samples and the samples trained in an hour are compared with those of the
best fixed size known afterwards. Beside it, on the same samples, the nine rules of the Brain that went before, and the
workers that each had on average. `recorded` are the jobs that the policy's thresholds were chosen on (real processes
that queue for one thing), `held_out` those that it never saw (our whole runtime with other models, shapes and noise).
Speed: plans with 10,000 past jobs in SQLite, and reports at an offered thousand per second, over HTTPS, beside the same
requests answered without doing anything. Nothing is asserted.

    python bench/bench_brain.py [--quick]
    python bench/bench_brain.py record NAME...      measure recordings again, about a minute each
"""

import argparse
import json
from pathlib import Path

import msgspec
from bench.brain.recordings import QUEUES, Recording, record_queue
from bench.brain.replay import regrets
from bench.brain.runtime import HELD_OUT, record_on_runtime
from bench.brain.speed import speed

TUNED_ON, UNSEEN = (Path(__file__).parent / name for name in ("recorded", "held_out"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer replays, past jobs and seconds")
    words = parser.add_subparsers(dest="word", metavar="WORD")
    recording = words.add_parser("record", help="measure recordings again")
    recording.add_argument("names", metavar="NAME", nargs="+", choices=(*QUEUES, *HELD_OUT))
    options = parser.parse_args()
    if options.word == "record":
        for name in options.names:
            _record(name)
        return
    replays = 5 if options.quick else 20
    for which, folder in (("jobs that the thresholds were chosen on", TUNED_ON), ("jobs that it never saw", UNSEEN)):
        if recordings := _recordings(folder):
            regrets(which, recordings, replays)
    speed(1_000 if options.quick else 10_000, 2.0 if options.quick else 8.0)


def _record(name: str) -> None:
    folder, made = (TUNED_ON, record_queue(name)) if name in QUEUES else (UNSEEN, record_on_runtime(name))
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(msgspec.to_builtins(made, str_keys=True), indent=1) + "\n")


def _recordings(folder: Path) -> list[Recording]:
    return [msgspec.json.decode(file.read_bytes(), type=Recording) for file in sorted(folder.glob("*.json"))]


if __name__ == "__main__":
    main()
