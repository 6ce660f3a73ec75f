"""Where the peers are installed, and why one cannot take part if it cannot."""

import os
import subprocess
from pathlib import Path

PYTHON = "EDL_BENCH_PEERS"
"""The interpreter of their virtualenv; `make bench-frameworks` sets it up and names it."""


def interpreter() -> Path:
    return Path(os.environ.get(PYTHON, "/nowhere"))


def reason_against(module: str) -> str:
    """Empty if it can be imported."""
    if not interpreter().exists():
        return f"no virtualenv of peers: {PYTHON} names none (`make bench-frameworks` makes it)"
    words = [str(interpreter()), "-W", "ignore", "-c", f"import {module}"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.stderr.strip().splitlines()[-1] if found.returncode else ""
