"""Aims for the numbers, and whether they are met: beside the peer's of the same run wherever it has one."""

from collections.abc import Iterator, Sequence

from bench.kube.contenders import CONTENDERS
from bench.kube.startup import Result

PEER = CONTENDERS["peer"].name
MEMORY_MB = 200
MORE_CALLS = 3  # than objects made
SECONDS_OF_A_PLAN = 30
SECONDS_OF_A_FIRST_LINE = 10


def compared(results: Sequence[Result]) -> Iterator[str]:
    """A line for every result of ours, beside the peer's with as many jobs."""
    peers = {one.jobs: one for one in results if one.contender == PEER}
    for one in results:
        if one.contender == PEER:
            continue
        peer = peers.get(one.jobs)
        aims = [
            *(_beside(one, peer) if peer is not None else ()),
            _line(f"{one.memory_mb:.0f} MB at most", one.memory_mb <= MEMORY_MB, f"{MEMORY_MB} MB"),
            _calls(one),
        ]
        yield f"{one.contender}, {one.jobs} jobs: {'; '.join(aims)}"


def _beside(one: Result, peer: Result) -> Iterator[str]:
    yield _line(f"running after {one.running:.1f} s", one.running <= peer.running, f"the peer's {peer.running:.1f}")
    yield _line(f"{one.cpu_ms:.1f} ms of CPU a job", one.cpu_ms <= peer.cpu_ms, f"the peer's {peer.cpu_ms:.1f}")


def _calls(one: Result) -> str:
    """To a tenth, as it is printed."""
    most = one.objects + MORE_CALLS
    return _line(f"{one.calls:.1f} calls a job", round(one.calls, 1) <= round(most, 1), f"{most:.1f}")


def _line(found: str, met: bool, aim: str) -> str:
    return f"{found} {'within' if met else 'BEYOND'} {aim}"
