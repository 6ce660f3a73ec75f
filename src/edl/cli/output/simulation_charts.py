"""Charts of simulations, as SVG and for the terminal: completion times as a distribution, and GPUs in use over time."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP = 900, 220, 60, 20, 40, 60
COLORS = ("#0969da", "#bf3989", "#1a7f37", "#9a6700", "#8250df")
INK, FAINT, GRID = "#24292f", "#6e7781", "#d8dee4"
BARS = " ▁▂▃▄▅▆▇█"
COLUMNS = 72

Points = Sequence[tuple[float, float]]
"""Time and value from then on, in order."""


class Series:
    """One line of a chart: `distribution` of times, `use` over time."""

    def __init__(self, name: str, times: Sequence[float], use: Points, most: float, end: float) -> None:
        self.name, self.times, self.use, self.most, self.end = name, sorted(times), use, most, end


def svg(series: Sequence[Series]) -> str:
    """Both charts, one above the other."""
    height = TOP + 2 * (HEIGHT + GAP)
    longest = max((one.times[-1] for one in series if one.times), default=1.0) or 1.0
    last = max((one.end for one in series), default=1.0) or 1.0
    most = max((one.most for one in series), default=1.0) or 1.0
    done = [(one.name, _steps(one.times)) for one in series]
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-size='12' "
        "font-family='system-ui, sans-serif'>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff' stroke='{GRID}'/>",
        *_legend([one.name for one in series]),
        *_chart("share of jobs by completion time", done, TOP, longest, 1.0),
        *_chart(
            "GPUs in use over time",
            [(one.name, one.use) for one in series],
            TOP + HEIGHT + GAP,
            last,
            most,
            stairs=True,
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _steps(times: Sequence[float]) -> list[tuple[float, float]]:
    return [(0.0, 0.0), *((time, (number + 1) / len(times)) for number, time in enumerate(times))]


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    for number, name in enumerate(names):
        x = LEFT + 130 * number
        parts.append(f"<rect x='{x}' y='12' width='12' height='12' fill='{COLORS[number % len(COLORS)]}'/>")
        parts.append(f"<text x='{x + 18}' y='22' fill='{INK}'>{escape(name)}</text>")
    return parts


def _chart(
    title: str, lines: Sequence[tuple[str, Points]], top: float, longest: float, most: float, *, stairs: bool = False
) -> list[str]:
    wide = WIDTH - LEFT - RIGHT
    parts = [f"<text x='{LEFT}' y='{top + 4}' fill='{FAINT}'>{escape(title)}</text>"]
    for share in (0.0, 0.5, 1.0):
        y = top + 12 + (HEIGHT - 12) * (1 - share)
        parts.append(f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - RIGHT}' y2='{y:.1f}' stroke='{GRID}'/>")
        parts.append(f"<text x='{LEFT - 8}' y='{y + 4:.1f}' text-anchor='end' fill='{FAINT}'>{most * share:g}</text>")
        x = LEFT + wide * share
        where = f"x='{x:.1f}' y='{top + HEIGHT + 16}' text-anchor='middle'"
        parts.append(f"<text {where} fill='{FAINT}'>{longest * share:.0f} s</text>")
    for number, (_, points) in enumerate(lines):
        drawn, before = [], None
        for time, value in points:
            x = LEFT + wide * min(time / longest, 1.0)
            y = top + 12 + (HEIGHT - 12) * (1 - min(value / most, 1.0))
            if stairs and before is not None:
                drawn.append(f"{x:.1f},{before:.1f}")
            drawn.append(f"{x:.1f},{y:.1f}")
            before = y
        color = COLORS[number % len(COLORS)]
        parts.append(f"<polyline points='{' '.join(drawn)}' fill='none' stroke='{color}' stroke-width='1.5'/>")
    return parts


def html(series: Sequence[Series], table: str) -> str:
    """A page that needs nothing else."""
    return f"<!doctype html><meta charset='utf-8'><title>edl simulate</title><pre>{escape(table)}</pre>\n{svg(series)}"


def distribution(times: Sequence[float], longest: float) -> str:
    """One line of bars: the share of jobs that are done by each time, up to the longest."""
    ordered = sorted(times)
    bars, at = [], 0
    for column in range(1, COLUMNS + 1):
        while at < len(ordered) and ordered[at] <= longest * column / COLUMNS:
            at += 1
        bars.append(BARS[-(-at * (len(BARS) - 1) // max(len(ordered), 1))])
    return f"{''.join(bars)}  share of jobs done, 0 to {longest:.0f} s"
