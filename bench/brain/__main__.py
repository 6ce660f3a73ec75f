"""Quality and speed of the Brain's decisions.

Regret: decisions are replayed on recorded samples and the samples trained in an hour are compared with those of the
best fixed size known afterwards. Beside it, on the same samples, the nine rules of the Brain that went before, and the
workers that each had on average. `recorded` are jobs that the policy was made on (real processes that queue for one
thing), `validation` those that it was held to while it was made (our whole runtime with other models, shapes and
noise), `held_out` those that are recorded when it is done, if they are.
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
from bench.brain.runtime import HELD_OUT, VALIDATION, record_on_runtime
from bench.brain.speed import speed

HERE = Path(__file__).parent
GROUPS: dict[str, tuple[str, frozenset[str]]] = {
    "recorded": ("jobs that it was made on", frozenset(QUEUES)),
    "validation": ("jobs that it was held to while it was made", frozenset(VALIDATION)),
    "held_out": ("jobs that it never saw", frozenset(HELD_OUT)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer replays, past jobs and seconds")
    words = parser.add_subparsers(dest="word", metavar="WORD")
    recording = words.add_parser("record", help="measure recordings again")
    recording.add_argument("names", metavar="NAME", nargs="+", choices=(*QUEUES, *VALIDATION, *HELD_OUT))
    options = parser.parse_args()
    if options.word == "record":
        for name in options.names:
            _record(name)
        return
    replays = 5 if options.quick else 20
    for folder, (which, _) in GROUPS.items():
        if recordings := _recordings(HERE / folder):
            regrets(which, recordings, replays)
    speed(1_000 if options.quick else 10_000, 2.0 if options.quick else 8.0)


def _record(name: str) -> None:
    made = record_queue(name) if name in QUEUES else record_on_runtime(name)
    folder = next(HERE / folder for folder, (_, names) in GROUPS.items() if name in names)
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(msgspec.to_builtins(made, str_keys=True), indent=1) + "\n")


def _recordings(folder: Path) -> list[Recording]:
    return [msgspec.json.decode(file.read_bytes(), type=Recording) for file in sorted(folder.glob("*.json"))]


if __name__ == "__main__":
    main()
