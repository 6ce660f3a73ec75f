"""Hours of GPUs, cores and GiB, shares, and lengths of time, as tables show them."""

from collections.abc import Iterable, Mapping

from edl.ledger.amounts import Amounts
from edl.ledger.job_account import Spent
from edl.ledger.uses import Use

HOUR = 3600.0
SPENT_COLUMNS = ("use", "seconds", "instance_seconds", "gpu_seconds", "core_seconds", "gib_seconds")


def hours(seconds: float) -> str:
    """1,234, 12.3 or 0.04; nothing is a dash."""
    value = seconds / HOUR
    if value < 0.005:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def in_hours(amounts: Amounts) -> tuple[str, str, str]:
    return hours(amounts.gpus), hours(amounts.cores), hours(amounts.gib)


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.1f}%"


def span(seconds: float) -> str:
    """12s, 3m, 4.2h, 12d."""
    if seconds < 120:
        return f"{seconds:.0f}s"
    if seconds < 2 * HOUR:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / HOUR:.1f}h" if seconds < 48 * HOUR else f"{seconds / (24 * HOUR):.0f}d"


def spent_rows(spent: Mapping[Use, Spent]) -> Iterable[tuple[object, ...]]:
    """For programs: a row for each use."""
    for use, one in spent.items():
        amounts = one.amounts
        figures = (one.seconds, amounts.instances, amounts.gpus, amounts.cores, amounts.gib)
        yield (str(use), *(round(figure, 3) for figure in figures))
