"""The recording as an SVG: cores over time, stacked, events above them, losses below."""

from collections.abc import Sequence
from html import escape
from math import log10

from edl.demo.chart import colors
from edl.demo.recording import Recording

WIDTH, LEFT, RIGHT = 900, 52, 20
TOP, HEIGHT, GAP, LOSS_HEIGHT, FOOT = 54, 250, 40, 110, 24
FONT = "font-family='system-ui, -apple-system, Segoe UI, sans-serif'"
INK, FAINT, GRID = "#24292f", "#6e7781", "#d8dee4"


def draw(recording: Recording) -> str:
    legend = TOP + HEIGHT + GAP + LOSS_HEIGHT + FOOT
    height = legend + 18 * len(recording.marks) + 14
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' {FONT} font-size='12'>",
        f"<rect width='{WIDTH}' height='{height}' rx='8' fill='#ffffff' stroke='{GRID}'/>",
        *_cores(recording),
        *_marks(recording),
        *_losses(recording),
        *_legend(recording),
        *_acts(recording, legend + 14),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(recording: Recording, at: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / (recording.seconds or 1.0)


def _y(recording: Recording, cores: float) -> float:
    return TOP + HEIGHT * (1 - cores / recording.cores)


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{fill}' {more}>{escape(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = GRID, more: str = "") -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{stroke}' {more}/>"


def _cores(recording: Recording) -> list[str]:
    """Areas stacked in the order in which their holders came; stairs, for sizes are whole."""
    parts = []
    for cores in range(0, recording.cores + 1, 3):
        y = _y(recording, cores)
        parts += [_line(LEFT, y, WIDTH - RIGHT, y), _text(LEFT - 8, y + 4, str(cores), anchor="end", fill=FAINT)]
    palette = colors(recording.holders)
    below = [0] * len(recording.moments)
    for holder in recording.holders:
        above = [base + moment.cores(holder) for base, moment in zip(below, recording.moments, strict=True)]
        points = [*_stairs(recording, above), *reversed(_stairs(recording, below))]
        parts.append(f"<polygon points='{' '.join(points)}' fill='{palette[holder]}' fill-opacity='0.85'/>")
        below = above
    bottom = TOP + HEIGHT + 16
    for second in range(0, int(recording.seconds) + 1, 10):
        parts.append(_text(_x(recording, second), bottom, f"{second} s", anchor="middle", fill=FAINT))
    return parts


def _stairs(recording: Recording, heights: Sequence[int]) -> list[str]:
    points, before = [], None
    for moment, height in zip(recording.moments, heights, strict=True):
        x = _x(recording, moment.at)
        if before is not None and height != before:
            points.append(f"{x:.1f},{_y(recording, before):.1f}")
        if height != before:
            points.append(f"{x:.1f},{_y(recording, height):.1f}")
        before = height
    points.append(f"{_x(recording, recording.seconds):.1f},{_y(recording, before or 0):.1f}")
    return points


def _marks(recording: Recording) -> list[str]:
    parts = []
    for event in recording.marks:
        x, fill = _x(recording, event.at), "#cf222e" if event.kind == "fault" else INK
        parts += [
            _line(x, TOP - 4, x, TOP + HEIGHT, stroke=fill, more="stroke-dasharray='3 3' stroke-opacity='0.6'"),
            f"<circle cx='{x:.1f}' cy='{TOP - 13}' r='9' fill='{fill}'/>",
            _text(x, TOP - 9, str(event.mark), anchor="middle", fill="#ffffff", more="font-size='11'"),
        ]
    return parts


def _losses(recording: Recording) -> list[str]:
    """Each on a scale of its own, from its highest to its lowest: what matters is that they fall."""
    top = TOP + HEIGHT + GAP
    parts = [
        _line(LEFT, top + LOSS_HEIGHT, WIDTH - RIGHT, top + LOSS_HEIGHT),
        _text(LEFT - 8, top + 10, "loss", anchor="end", fill=FAINT),
    ]
    palette = colors(recording.holders)
    training = [holder for holder in recording.holders if recording.losses(holder)]
    for line, holder in enumerate(training):
        seen = recording.losses(holder)
        logs = [log10(max(loss, 1e-9)) for _, loss in seen]
        least, span = min(logs), (max(logs) - min(logs)) or 1.0
        points = " ".join(
            f"{_x(recording, at):.1f},{top + LOSS_HEIGHT * (1 - (value - least) / span):.1f}"
            for (at, _), value in zip(seen, logs, strict=True)
        )
        parts.append(f"<polyline points='{points}' fill='none' stroke='{palette[holder]}' stroke-width='2'/>")
        # Two jobs may end at the same time and both low: each has a line of its own, above the falling ends.
        label = f"{holder} {seen[-1][1]:.3g}"
        parts.append(_text(WIDTH - RIGHT, top + 10 + 15 * line, label, anchor="end", fill=palette[holder]))
    return parts


def _legend(recording: Recording) -> list[str]:
    parts, x = [_text(LEFT, 22, "cores held", more="font-weight='600'")], LEFT + 90.0
    for holder, fill in colors(recording.holders).items():
        parts += [f"<rect x='{x}' y='12' width='12' height='12' rx='2' fill='{fill}'/>", _text(x + 18, 22, holder)]
        x += 34 + 7.5 * len(holder)
    return parts


def _acts(recording: Recording, top: float) -> list[str]:
    parts = []
    for row, event in enumerate(recording.marks):
        y = top + 18 * row
        parts.append(_text(LEFT, y, f"{event.mark}", fill="#cf222e" if event.kind == "fault" else INK))
        parts.append(_text(LEFT + 18, y, f"{event.at:.0f} s", fill=FAINT))
        parts.append(_text(LEFT + 62, y, event.text))
    return parts
