"""Index sets as Kubernetes writes them in `completedIndexes`: sorted ranges, `0-2,5` for 0, 1, 2 and 5."""

from collections.abc import Iterable


def text(indexes: Iterable[int]) -> str:
    """The shortest text that names exactly these indexes."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def parse(ranges: str, *, longest: int | None = None) -> frozenset[int]:
    """The indexes of a text. A part that is no range is ignored, as Kubernetes does; `longest` bounds each range."""
    found: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            begin, end = int(first), int(last or first)
            found.update(range(begin, (end if longest is None else min(end, begin + longest)) + 1))
    return frozenset(found)
