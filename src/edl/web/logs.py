"""Lines of one pod's log for a page: bounded, and harmless whatever is in them.

Escape codes are taken out, other control characters are written out, a long line is cut; what was left out is counted.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from edl.kube.rest.client import Client
from edl.kube.rest.transport import Request
from edl.operator.resources import PODS
from edl.web.types import LogLines

LINE = 4096  # bytes of a line that are shown
BATCH = 500  # lines of one message
GATHER = 0.1
FOREVER = 10 * 365 * 86400.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(line: str) -> str:
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", _ESCAPES.sub("", line))


class LineCutter:
    """Chunks of bytes, cut anywhere, into lines; holds no more than a line's worth of them."""

    def __init__(self) -> None:
        self._rest = b""
        self._cutting = False  # within a line whose rest is left out
        self.cut = 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        *whole, rest = (self._rest + chunk).split(b"\n")
        lines = []
        for piece in whole:
            line = self._line(piece)
            if line is not None:
                lines.append(line)
            self._cutting = False
        self._rest = rest
        if len(rest) > LINE:
            line = self._line(rest)
            lines += [line] if line is not None else []
            self._rest, self._cutting = b"", True
        return lines

    def last(self) -> list[tuple[str, str]]:
        line = self._line(self._rest) if self._rest else None
        self._rest = b""
        return [line] if line is not None else []

    def _line(self, piece: bytes) -> tuple[str, str] | None:
        if self._cutting:
            self.cut += len(piece)
            return None
        time, _, text = piece.partition(b" ")
        if len(text) > LINE:
            self.cut += len(text) - LINE
            text = text[:LINE] + " …".encode()
        return time[:40].decode(errors="replace"), harmless(text.decode(errors="replace").rstrip("\r"))


async def pod_log(
    client: Client, namespace: str, pod: str, *, tail: int, follow: bool, previous: bool = False
) -> AsyncGenerator[LogLines, None]:
    """Batches of lines as they come, several at a time when they come fast. KubeError: there is no log to be had."""
    query = {"timestamps": "true", "tailLines": str(tail), "limitBytes": "" if follow else str(8 << 20)}
    query |= {"follow": "true" if follow else "", "previous": "true" if previous else ""}
    request = Request(
        "GET", PODS.path(namespace, pod, "log"), {name: value for name, value in query.items() if value}, accept="*/*"
    )
    cutter, gathered = LineCutter(), []
    loop = asyncio.get_running_loop()
    due = loop.time()
    chunks = client.stream(request, idle=FOREVER if follow else 30.0)
    async with aclosing(chunks):
        async for chunk in chunks:
            gathered += cutter.feed(chunk)
            while len(gathered) >= BATCH or (gathered and loop.time() >= due):
                yield LogLines(lines=gathered[:BATCH], cut=cutter.cut)
                gathered, due = gathered[BATCH:], loop.time() + (GATHER if not follow else 0.0)
    gathered += cutter.last()
    yield LogLines(lines=gathered, cut=cutter.cut, end="the log has ended")
