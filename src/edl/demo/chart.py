"""Sizes over time for a terminal: a column per moment, a row per core, a colour per holder; the marks of what happened
stand below. Without colour every holder has a letter.
"""

from collections.abc import Iterable

from rich.text import Text

from edl.demo.recording import Moment, Recording

COLORS = ("#4c8dd6", "#e8833a", "#57b26a", "#b279a2")
IDLE = "#4a4a4a"
MARKS = "①②③④⑤⑥⑦⑧⑨"


def colors(holders: Iterable[str]) -> dict[str, str]:
    return dict(zip(holders, COLORS, strict=False))


def chart(recording: Recording, *, width: int = 72, color: bool = True) -> Text:
    samples = recording.sampled(width)
    columns = [_column(recording, moment) for moment in samples]
    palette = colors(recording.holders)
    letters = dict(zip(recording.holders, "ABCD", strict=False))
    text = Text(no_wrap=True)
    for core in range(recording.cores, 0, -1):
        text.append(f"{core:>3} " if core % 3 == 0 else "    ", style="dim")
        for column in columns:
            holder = column[core - 1] if core <= len(column) else ""
            if color:
                text.append("█" if holder else "·", style=palette.get(holder, IDLE))
            else:
                text.append(letters.get(holder, "."))
        text.append("\n")
    text.append_text(_marks(recording, width))
    text.append_text(_seconds(recording, width))
    for holder in recording.holders:
        text.append(f"    {'██' if color else letters[holder]} {holder}", style=palette[holder] if color else "")
    text.append(f"    {'·' if color else '.'} idle   (one row is one core)", style="dim")
    return text


def _column(recording: Recording, moment: Moment) -> list[str]:
    """Who holds each core, from the bottom."""
    return [holder for holder in recording.holders for _ in range(moment.cores(holder))]


def _marks(recording: Recording, width: int) -> Text:
    line = [" "] * width
    for event in recording.marks:
        place = min(width - 1, int(event.at / (recording.seconds or 1.0) * width))
        while place < width - 1 and line[place] != " ":
            place += 1
        line[place] = MARKS[(event.mark - 1) % len(MARKS)]
    return Text(f"    {''.join(line)}\n", style="bold")


def _seconds(recording: Recording, width: int) -> Text:
    line = ""
    for second in range(0, int(recording.seconds) + 1, 10):
        place = int(second / (recording.seconds or 1.0) * width)
        if place + 4 <= width:
            line = line.ljust(place) + f"{second}s"
    return Text(f"    {line}\n", style="dim")
