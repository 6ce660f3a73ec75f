"""The OpenAPI document, generated from the types that the server decodes and encodes, so that the two agree."""

from typing import Any

import msgspec

import edl
from edl.ledger.report import PeriodReport
from edl.protocol.brain import Answer, Ask, Beginning, Ending, JobDetail, JobLine, Report
from edl.protocol.errors import Refusal
from edl.protocol.history import ClusterPoint, HistoryBatch, HistoryLine, JobPast
from edl.protocol.kept_logs import KeptLogInfo, KeptLogText, LogChunk

_JOB = "/v1/jobs/{namespace}/{name}/{uid}"
_PAST = "/v1/history/jobs/{namespace}/{name}"
_REF = "#/components/schemas/{name}"

# method, path, summary, type of the body, type of the answer (None: an empty object)
CALLS: tuple[tuple[str, str, str, Any, Any], ...] = (
    ("post", "/v1/plan", "What a job like this would get at its start; nothing is kept.", Beginning, Answer),
    ("get", "/v1/jobs", "The jobs that the token may see, newest first.", None, list[JobLine]),
    ("get", "/v1/jobs/{namespace}/{name}", "The newest job of that name: plans, samples, incidents.", None, JobDetail),
    ("get", _JOB, "One job: plans, samples, incidents.", None, JobDetail),
    ("post", _JOB, "A job begins: its start-up plan.", Beginning, Answer),
    ("post", f"{_JOB}/reports", "Measurements, durable when answered. May be repeated.", Report, None),
    ("post", f"{_JOB}/plan", "A report, and the next plan or the reason for none.", Ask, Answer),
    ("post", f"{_JOB}/outcome", "The job has ended; others like it learn from it.", Ending, None),
    (
        "post",
        "/v1/history",
        "News of all jobs and of the cluster; for operators.",
        HistoryBatch,
        None,
    ),
    ("get", "/v1/history", "Jobs of `namespace` that lived `since` or later; `limit`.", None, list[HistoryLine]),
    ("get", _PAST, "Everything kept of the newest job of that name.", None, JobPast),
    ("get", f"{_PAST}/{{uid}}", "Everything kept of one job.", None, JobPast),
    (
        "get",
        "/v1/history/cluster",
        "Use of capacity, `since` to `until`; `points`.",
        None,
        list[ClusterPoint],
    ),
    ("post", f"{_JOB}/logs", "Lines of a pod's log. May be repeated.", LogChunk, None),
    ("get", f"{_PAST}/logs", "Pods of the newest job of that name whose logs are kept.", None, list[KeptLogInfo]),
    ("get", f"{_PAST}/{{uid}}/logs", "Pods of a job whose logs are kept.", None, list[KeptLogInfo]),
    ("get", f"{_PAST}/{{uid}}/logs/{{pod}}", "What is kept of a pod's log; `since`.", None, KeptLogText),
    ("get", "/v1/history/report", "Who used what from `since` to `until`; `namespace`.", None, PeriodReport),
)


def document() -> dict[str, Any]:
    kinds = [kind for *_, body, answer in CALLS for kind in (body, answer) if kind is not None] + [Refusal]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for method, path, summary, body, answer in CALLS:
        paths.setdefault(path, {"parameters": _parameters(path)})[method] = _operation(summary, body, answer, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "EDL Brain", "version": edl.__version__, "description": UNITS},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


UNITS = (
    "Units everywhere: cpu in cores, memory and disk in MiB, gpu in devices, seconds (points in time since 1970),"
    " throughput in samples per second."
)


def _parameters(path: str) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _operation(summary: str, body: Any, answer: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    refusal = {"description": "Refused; `code` is stable.", "content": _json(schemas[str(Refusal)])}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "Done.", "content": _json(schemas[str(answer)] if answer else {"type": "object"})},
            **dict.fromkeys(("400", "401", "403", "404", "429", "503"), refusal),
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(schemas[str(body)])}
    return operation


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
