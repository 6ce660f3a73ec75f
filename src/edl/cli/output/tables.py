"""Plain tables and ages for a terminal, as kubectl's readers expect them: no borders, columns three blanks apart."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

from edl.api.kubernetes import timestamp
from edl.cli.output.terminal import harmless


def table(header: Sequence[str], rows: Sequence[Sequence[object]], *, width: int | None = None) -> str:
    """The last column is cut to the terminal's width; where there is no terminal, nothing is cut."""
    cells = [[_text(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    limit = width if width is not None else terminal_width()
    return "\n".join(_line(row, widths, limit) for row in cells)


def _line(row: Sequence[str], widths: Sequence[int], limit: int | None) -> str:
    line = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def wrapped(text: str, *, indent: int = 10) -> str:
    """Long lines in several, where there is a terminal; what follows the first is indented."""
    width = terminal_width()
    if width is None:
        return text
    lines = (textwrap.wrap(line, width, subsequent_indent=" " * indent) or [""] for line in text.splitlines())
    return "\n".join(part for parts in lines for part in parts)


def terminal_width() -> int | None:
    """None where there is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _text(cell: object) -> str:
    return "-" if cell is None or cell == "" else harmless(str(cell))


def age(created: str, now: float) -> str:
    """5s, 3m20s, 4h, 12d."""
    if not created:
        return "-"
    seconds = max(0, int(now - timestamp.seconds(created)))
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    return f"{minutes // 60}h" if minutes < 48 * 60 else f"{minutes // (24 * 60)}d"
