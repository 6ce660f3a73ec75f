"""Passes the exception of a failed worker on to the status of its pod.

torchrun's log ends with a summary in which the worker's exception does not occur. A worker that ends by an exception
leaves it in torchrun's error file, unless the script did so itself (torch's `record`); the agent writes it as the
container's termination message. An error on the way is ignored.
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
MOST_BYTES = 4096  # bytes that Kubernetes keeps
MOST_REPORTED = 6000  # bytes of JSON that the job service is told: a message to it has 8 KiB at most


def write_error_file(error: Exception, env: Mapping[str, str], *, besides: frozenset[str] = frozenset()) -> None:
    """In the worker. `besides` are files whose code is not the script's."""
    file = Path(env.get("TORCHELASTIC_ERROR_FILE") or os.devnull)
    if file.exists():
        return
    stack = "".join(traceback.format_exception(type(error), error, _outside(error.__traceback__, besides)))
    more = {"py_callstack": stack, "timestamp": str(int(time.time()))}
    with contextlib.suppress(OSError):
        file.write_text(json.dumps({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": more}}))


def _outside(trace: TracebackType | None, besides: frozenset[str]) -> TracebackType | None:
    """None if all of it was there: of a script that could not be compiled, which the error itself points to."""
    while trace is not None and trace.tb_frame.f_code.co_filename in besides:
        trace = trace.tb_next
    return trace


def write_termination_message(failure: Any, env: Mapping[str, str]) -> None:
    """In the agent, of a ProcessFailure of torch's. Without a message of its own the end of the log has to do."""
    if failure.exitcode >= 0 and failure.error_file_data.get("message", "<NONE>") == "<NONE>":
        return
    with contextlib.suppress(OSError):
        file = os.open(env.get("EDL_TERMINATION_LOG") or MESSAGE, os.O_WRONLY | os.O_TRUNC)  # nothing is made anew
        try:
            os.write(file, text_of(failure.message).encode()[-MOST_BYTES:])
        finally:
            os.close(file)


def said_by(failure: Any) -> str:
    """The exception of a ProcessFailure of torch's, empty if its worker left none."""
    if failure.error_file_data.get("message", "<NONE>") == "<NONE>":
        return ""
    return text_of(failure.message)


def reportable(text: str) -> str:
    """The end of a text, as much as a message to the job service has room for."""
    text = text[-MOST_REPORTED:]
    while len(json.dumps(text)) > MOST_REPORTED:
        text = text[len(text) // 4 + 1 :]
    return text


def text_of(message: str | Mapping[str, Any]) -> str:
    """The text of an error file's message; its last line is the exception."""
    if isinstance(message, str):
        return message
    extra = message.get("extraInfo") or {}
    return str(extra.get("py_callstack") or message.get("message") or "").strip()
