"""How long training stops when workers join, leave or are killed, for torchrun, for our ways and for our peers, in one
run: `make bench-frameworks`.

changes: pauses, steps lost and samples repeated or missing, between 2 and 3 workers for all and 4 and 8 for some.
cost:    wall and CPU time of a step beside plain DDP.
state:   the pause of a join in place by the size of the state, all of it trained or most of it frozen, beside the rate
         of loopback.
spot:    samples committed per worker-second under a trace of spot instances (--trace); run only if it is named.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.frameworks import report, spot, state
from bench.frameworks.changes import LARGE, SMALL, Found, Size, play
from bench.frameworks.contenders.registry import CONTENDERS, Contender
from bench.frameworks.step_cost import Cost, measure

SIZES = {"2-3": SMALL, "4-8": LARGE}
PARTS, NAMED = ("changes", "cost", "state"), ("spot",)


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process is left behind
    words = options.only.split(",")
    chosen = [one for one in CONTENDERS if any(word in one.name for word in words)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    aims: list[str] = []
    if "changes" in options.parts:
        aims += changes(chosen, [SIZES[name] for name in options.sizes.split(",")], options.rounds)
    if "cost" in options.parts:
        aims += cost(chosen, options.rounds, options.steps)
    if "state" in options.parts:
        for line in state.measure(options.states.split(","), options.rounds):
            print(line, flush=True)
    if "spot" in options.parts:
        for line in spot.compare(chosen, options.trace, options.regimes.split(","), options.seconds):
            print(line, flush=True)
    print("\n".join(["aims:", *aims]) if aims else "", f"load {os.getloadavg()[0]:.1f}", sep="\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.frameworks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join((*PARTS, *NAMED))}")
    parser.add_argument("--rounds", type=int, default=5, help="of everything (%(default)s)")
    parser.add_argument("--only", default="", help="contenders whose names have one of these in them: place,torchft")
    parser.add_argument("--sizes", default=",".join(SIZES), help="between how many workers (%(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="whose cost is measured (%(default)s)")
    parser.add_argument("--states", default=",".join(state.SIZES), help="sizes of state (%(default)s)")
    parser.add_argument("--trace", type=Path, help="of spot instances, a CSV file")
    parser.add_argument("--regimes", default="hh,lh", help="of the trace (%(default)s)")
    parser.add_argument("--seconds", type=float, default=180.0, help="that the trace's hour becomes (%(default)s)")
    options = parser.parse_args()
    options.parts = options.parts or PARTS
    if unknown := set(options.parts) - {*PARTS, *NAMED}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    if "spot" in options.parts and options.trace is None:
        parser.error("spot needs --trace FILE")
    return options


def changes(contenders: Sequence[Contender], sizes: Sequence[Size], rounds: int) -> list[str]:
    """Prints the tables, and returns what became of the aims."""
    rate, aims = state.loopback_rate(), []
    print(f"loopback moves {rate / 1e9:.2f} GB/s", flush=True)
    able = able_of(contenders)
    for size in sizes:
        taking_part = [one for one in able if one.large or size is SMALL]
        found = _changes(taking_part, size, rounds)
        print("\n".join(report.table(size, found)), flush=True)
        aims += [f"{size.few}<->{size.many}: {line}" for line in report.aims_of_changes(size, found, rate)]
    return aims


def _changes(contenders: Sequence[Contender], size: Size, rounds: int) -> dict[str, Found]:
    found = {one.name: Found() for one in contenders}
    for number in range(rounds):
        for contender in contenders:  # in turns, so that whatever else the machine does meets all of them
            print(f"round {number + 1}: {size.few}<->{size.many}, {contender.name}", file=sys.stderr, flush=True)
            play(contender, size, found[contender.name])
    return found


def cost(contenders: Sequence[Contender], rounds: int, steps: int) -> list[str]:
    able = able_of(contenders)
    found = {one.name: Cost() for one in able}
    for number in range(rounds):
        for contender in able:
            print(f"round {number + 1}: cost of a step, {contender.name}", file=sys.stderr, flush=True)
            measure(contender, steps, found[contender.name])
    print("\n".join(report.costs(found)), flush=True)
    return list(report.aims_of_costs(found))


def able_of(contenders: Sequence[Contender]) -> list[Contender]:
    """Those that can run here; the others are named."""
    able = []
    for one in contenders:
        if reason := one.reason_against():
            print(f"{one.name} cannot run: {reason}", flush=True)
        else:
            able.append(one)
    return able


if __name__ == "__main__":
    main()
