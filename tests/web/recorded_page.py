"""The page of a simulated run, served by `edl ui --history` in a process of its own."""

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edl.cli.main import main

TRACE = Path(__file__).parents[2] / "examples" / "simulate" / "trace.csv"
PATIENCE = 120.0


@contextmanager
def served_recording(directory: Path) -> Iterator[str]:
    """An address that logs in once. 40 jobs on two nodes, where some have to wait."""
    file = directory / "week.db"
    assert main(["simulate", "--jobs", str(TRACE), "--nodes", "2", "--gpu", "4", "--record", str(file)]) == 0
    command = [sys.executable, "-m", "edl.cli.main", "ui", "--print", "--history", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("serving ").strip()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


class Page:
    """Logged in by the code that the command printed."""

    def __init__(self, address: str) -> None:
        self.address = address
        parts = urlsplit(address)
        self._at = parts.hostname or "", parts.port
        code = re.sub("^code=", "", parts.fragment)
        self._session = self.ask("POST", "login", json.dumps({"code": code}))[1]["session"]

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self._at, timeout=PATIENCE)
        headers = {"EDL-Request": "1"} | ({"EDL-Token": self._session} if hasattr(self, "_session") else {})
        try:
            connection.request(method, f"/api/v1/{path}", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, found = self.ask("GET", path)
        assert status == 200, found
        return found
