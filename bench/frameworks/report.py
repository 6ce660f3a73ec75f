"""The table, and aims with whether they are met."""

from collections.abc import Iterator, Mapping

from bench.frameworks.changes import EVENTS, Found, Size
from bench.frameworks.contenders.registry import IN_PLACE, PLAIN, TUNED
from bench.frameworks.step_cost import Cost, median, shown

MOST_STEPS, LEAST_RATIO, MOST_COST = 3.0, 40.0, 1.05
STATE_BYTES = 3 * 4 * 490_000  # of the workload: parameters and two moments


def table(size: Size, found: Mapping[str, Found]) -> Iterator[str]:
    rounds = max((one.rounds for one in found.values()), default=0)
    yield f"{size.few}<->{size.many} workers, medians of {rounds} rounds: seconds (in the job's own steps) [raw]"
    head = "".join(f"{event:<38}" for event in EVENTS)
    yield f"{'':<20}{head}{'steps lost (j/l/k)':<24}{'samples repeated/missing':<26}stuck"
    for name, one in found.items():
        lost = " / ".join(" ".join(map(str, one.lost(event))) or "-" for event in EVENTS)
        cells = "".join(f"{_cell(one, event):<38}" for event in EVENTS)
        stuck = ", ".join(one.stuck) or "-"
        yield f"{name:<20}{cells}{lost:<24}{f'{one.repeated}/{one.missing}':<26}{stuck}"


def _cell(found: Found, event: str) -> str:
    seconds, steps = found.median(event), found.median_steps(event)
    if seconds is None or steps is None:
        return "-"
    raw = " ".join(f"{one.seconds:.2f}" for one in found.pauses[event])
    return f"{seconds:.2f} ({steps:.1f}) [{raw}]"


def costs(found: Mapping[str, Cost]) -> Iterator[str]:
    yield "a step of 2 workers with one thread each: median [spread] over rounds, ratios to torchrun's plain DDP"
    yield f"{'':<20}{'wall (ms)':<24}{'CPU (ms)':<24}{'wall ratio':<20}CPU ratio"
    for name, one in found.items():
        wall, cpu = one.ratios(found[PLAIN]) if PLAIN in found else ([], [])
        yield f"{name:<20}{shown(one.wall):<24}{shown(one.cpu):<24}{shown(wall):<20}{shown(cpu)}"


# ---- aims


def aims_of_changes(size: Size, found: Mapping[str, Found], rate: float) -> Iterator[str]:
    """`rate`: bytes that loopback moves in a second."""
    ours, tuned = found.get(IN_PLACE), found.get(TUNED)
    if ours is None:
        return
    for event in EVENTS:
        seconds, steps = ours.median(event), ours.median_steps(event)
        if seconds is None or steps is None:
            yield _aim(f"{event} in place", "stuck", False, "training goes on")
            continue
        free = (size.many - size.few) * STATE_BYTES / rate if event == "join" else 0.0
        spent = steps * (1 - free / seconds)
        yield _aim(f"{event} in place", f"{spent:.1f} own steps", spent <= MOST_STEPS, f"at most {MOST_STEPS:g}")
        peer = tuned.median(event) if tuned else None
        if peer is not None:
            ratio = peer / seconds
            yield _aim(f"{event}, tuned torchrun / in place", f"{ratio:.0f}", ratio >= LEAST_RATIO, f"{LEAST_RATIO:g}")
    lost = sum(sum(ours.lost(event)) for event in EVENTS)
    yield _aim("in place, condition", f"{lost} steps lost", lost == 0, "0")
    counts = ours.repeated, ours.missing
    yield _aim("in place, condition", "{}/{} samples repeated/missing".format(*counts), counts == (0, 0), "0/0")


def aims_of_costs(found: Mapping[str, Cost]) -> Iterator[str]:
    if IN_PLACE not in found or PLAIN not in found:
        return
    for what, ratios in zip(("wall", "CPU"), found[IN_PLACE].ratios(found[PLAIN]), strict=True):
        text = f"{shown(ratios)} of plain DDP"
        yield _aim(f"{what} time of a step in place", text, median(ratios) <= MOST_COST, f"at most {MOST_COST}")


def _aim(what: str, figure: str, met: bool, wanted: str) -> str:
    return f"{'met   ' if met else 'MISSED'}  {what}: {figure} (wanted: {wanted})"
