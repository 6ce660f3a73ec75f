"""Why a worker failed, in its own words, for the status of its pod.

torchrun's log ends with a summary in which the worker's exception does not occur. A worker that ends by an exception
leaves it in torchrun's error file, unless the script did so itself (torch's `record`); the agent makes it the last
words of the container. Failing to tell changes nothing.
"""

import contextlib
import json
import os
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

MESSAGE = "/dev/termination-log"
MOST = 4096  # bytes that Kubernetes keeps


def leave(error: Exception, env: Mapping[str, str], *, besides: frozenset[str] = frozenset()) -> None:
    """In the worker. `besides` are files whose code is not the script's."""
    file = Path(env.get("TORCHELASTIC_ERROR_FILE") or os.devnull)
    if file.exists():
        return
    stack = "".join(traceback.format_exception(type(error), error, _outside(error.__traceback__, besides)))
    more = {"py_callstack": stack, "timestamp": str(int(time.time()))}
    with contextlib.suppress(OSError):
        file.write_text(json.dumps({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": more}}))


def _outside(trace: TracebackType | None, besides: frozenset[str]) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in besides:
        trace = trace.tb_next
    return trace


def tell(failure: Any, env: Mapping[str, str]) -> None:
    """In the agent, of a ProcessFailure of torch's. One that has left no words is told by the end of the log."""
    if failure.exitcode >= 0 and failure.error_file_data.get("message", "<NONE>") == "<NONE>":
        return
    with contextlib.suppress(OSError):
        file = os.open(env.get("EDL_TERMINATION_LOG") or MESSAGE, os.O_WRONLY | os.O_TRUNC)  # nothing is made anew
        try:
            os.write(file, words(failure.message).encode()[-MOST:])
        finally:
            os.close(file)


def words(message: str | Mapping[str, Any]) -> str:
    """Of what an error file says: the last line is the exception."""
    if isinstance(message, str):
        return message
    extra = message.get("extraInfo") or {}
    return str(extra.get("py_callstack") or message.get("message") or "").strip()
