"""The operator's log: text for people, or one JSON object per line; either names the job that a line is about.

Lines logged during the reconcile of a job carry its name, whoever logs them: the key is a context variable of the task,
not an argument of every call.
"""

import json
import logging
import sys
from typing import Any, Literal, TextIO

from edl.api.kubernetes import timestamp
from edl.kube.controllers.controller import current

Format = Literal["text", "json"]


class JobContext(logging.Filter):
    """Adds `job` and `kind` of the reconcile to every record; both are empty outside of one."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind, namespace, name = current.get() or ("", "", "")
        record.kind, record.job = kind, f"{namespace}/{name}" if name else ""
        return True


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": timestamp.text(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for field in ("job", "kind"):
            if value := getattr(record, field, ""):
                line[field] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        job = getattr(record, "job", "")
        # A message that names the job itself needs no prefix.
        record.about = f"{job}: " if job and job not in record.getMessage() else ""
        return super().format(record)


def configure_logging(form: Format, *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """For the whole process."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(JobContext())
    text = TextFormatter("%(asctime)s %(levelname)s %(name)s: %(about)s%(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
