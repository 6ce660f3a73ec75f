"""Measures how well starts are foretold: each job that has to wait is forecast once, and compared with what happens.

Jobs arrive after the forecast and push in, so the error is that of somebody who does not know the future.
"""

from collections.abc import Iterable, Sequence

import msgspec

from edl.scheduler.simulation.forecast import StartForecast

SLACK = 30.0  # seconds: nobody is told more exactly than that


class ForetoldStart(msgspec.Struct, frozen=True):
    """What was said of a job at a moment."""

    said_at: float
    said: StartForecast


class ForecastError(msgspec.Struct, frozen=True):
    """Seconds. `within`: the share of jobs that started in the range that was named."""

    forecasts: int
    unknown: int
    median: float
    p90: float
    median_wait: float
    within: float


def forecast_error(starts: Iterable[tuple[ForetoldStart, float]]) -> ForecastError:
    """Of jobs with what was said and when they started."""
    known: list[tuple[float, float, bool]] = []
    unknown = 0
    for foretold, started in starts:
        said = foretold.said
        if said.starts is None:
            unknown += 1
            continue
        waited = started - foretold.said_at
        latest = said.latest if said.latest is not None else float("inf")
        known.append((abs(waited - said.starts), waited, said.earliest - SLACK <= waited <= latest + SLACK))
    if not known:
        return ForecastError(0, unknown, 0.0, 0.0, 0.0, 0.0)
    errors, waits = sorted(error for error, _, _ in known), sorted(waited for _, waited, _ in known)
    within = sum(1 for _, _, inside in known if inside) / len(known)
    return ForecastError(len(known), unknown, _at(errors, 0.5), _at(errors, 0.9), _at(waits, 0.5), within)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
