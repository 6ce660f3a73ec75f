"""The operator on a real control plane beside its Go peer, in the same run: `make bench-kube`.

startup: jobs of eight pods on 200 kwok nodes, from submission to running.
"""

import argparse
import asyncio

from bench.kube.contenders import CONTENDERS, WORKERS, Contender
from bench.kube.startup import NODES, Result, measure

COLUMNS = (
    ("jobs", 5),
    ("submitted", 10),
    ("running", 9),
    ("CPU/job", 9),
    ("memory", 8),
    ("calls/job", 10),
    ("objects", 8),
)
HEAD = " ".join(["".ljust(22), *(name.rjust(width) for name, width in COLUMNS)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    parser.add_argument("parts", nargs="*", default="startup", choices=["startup"], help="what to measure (all)")
    parser.add_argument("--jobs", default="200,1000", help="numbers of jobs (%(default)s)")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="who takes part (%(default)s)")
    parser.add_argument("--calls", action="store_true", help="list the calls that were made, by verb and resource")
    options = parser.parse_args()
    sizes = [int(size) for size in options.jobs.split(",")]
    chosen = [CONTENDERS[name] for name in options.contenders.split(",")]
    asyncio.run(startup(chosen, sizes, options.calls))


async def startup(contenders: list[Contender], sizes: list[int], calls: bool) -> None:
    print(f"jobs of {WORKERS} pods on {NODES} kwok nodes; calls and objects without Events and leases")
    print(HEAD)
    for contender in contenders:
        results = [await _measured(contender, size, calls) for size in sizes]
        if len(results) > 1:
            _print_growth(results[0], results[-1])


async def _measured(contender: Contender, jobs: int, calls: bool) -> Result:
    one = await measure(contender, jobs)
    print(
        f"{one.contender:<22} {one.jobs:>5} {one.submitted:>8.1f} s {one.running:>7.1f} s {one.cpu_ms:>6.1f} ms "
        f"{one.memory_mb:>5.0f} MB {one.calls:>10.1f} {one.objects:>8.1f}",
        flush=True,
    )
    if calls:
        for what, count in one.by_call.most_common():
            print(f"    {count / jobs:8.2f}  {what}")
    return one


def _print_growth(few: Result, many: Result) -> None:
    rate = (many.running / many.jobs) / (few.running / few.jobs)
    print(
        f"  {few.jobs} to {many.jobs} jobs: {many.cpu_ms / few.cpu_ms:.2f} times the CPU and {rate:.2f} times the time",
        end="",
    )
    print(f" per job, {(many.memory_mb - few.memory_mb) * 1024 / (many.jobs - few.jobs):.0f} KB more per job")


if __name__ == "__main__":
    main()
