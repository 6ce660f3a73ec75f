"""The OpenAPI document of the page's API, made from the types that the server decodes and encodes."""

from typing import Any

import msgspec

import edl
from edl.web import types

_REF = "#/components/schemas/{name}"
_JOB = "/api/v1/jobs/{kind}/{namespace}/{name}"

# method, path, summary, query parameters, type of the body, type of the answer
CALLS: tuple[tuple[str, str, str, tuple[str, ...], Any, Any], ...] = (
    ("get", "/api/v1/session", "Who you are, and what you may see.", (), None, types.SessionInfo),
    ("post", "/api/v1/login", "A session, for a one-time code or a token.", (), types.Login, types.LoginDone),
    ("post", "/api/v1/logout", "Ends the session.", (), None, types.Done),
    (
        "post",
        "/api/v1/codes",
        "A one-time code; actions=1: for one who may act.",
        ("actions",),
        None,
        types.Code,
    ),
    ("get", "/api/v1/jobs", "Every job that you may see.", (), None, types.Jobs),
    ("get", _JOB, "One job: size, decisions, curves, pods, advice.", (), None, types.JobDetail),
    ("get", f"{_JOB}/events", "Its Events, oldest first.", (), None, types.Events),
    ("get", f"{_JOB}/manifest", "The object as YAML.", (), None, types.Manifest),
    (
        "get",
        f"{_JOB}/pods/{{pod}}/log",
        "Lines of a pod's log, one JSON object a line; follow=1: as they come.",
        ("tail", "follow", "previous"),
        None,
        types.LogLines,
    ),
    (
        "get",
        f"{_JOB}/logs",
        "Logs that Brain keeps of its pods; without uid of the newest job of the name.",
        ("uid",),
        None,
        types.KeptLogs,
    ),
    (
        "get",
        f"{_JOB}/logs/{{pod}}",
        "What Brain keeps of one, as text: lines, each with its time in front.",
        ("uid",),
        None,
        str,
    ),
    ("get", "/api/v1/past", "Jobs that are gone, as history has them.", (), None, types.PastJobs),
    ("get", "/api/v1/cluster", "Nodes, who waits, shares, and use over time.", (), None, types.ClusterView),
    ("get", "/api/v1/plan", "What the scheduler would decide now.", ("policy",), None, types.PlanView),
    (
        "get",
        "/api/v1/stream",
        "Server-sent events: liveness, jobs, cluster, job, refused. view is jobs, cluster or job.",
        ("view", "job"),
        None,
        None,
    ),
    ("post", f"{_JOB}/size", "Asks for a size, with your own credential.", (), types.SizeWanted, types.Done),
    ("post", f"{_JOB}/pause", "Holds its size, or lets it go.", (), types.PauseWanted, types.Done),
    ("delete", _JOB, "Deletes it, with your own credential.", (), None, types.Done),
)


def document() -> dict[str, Any]:
    kinds = [kind for *_, body, answer in CALLS for kind in (body, answer) if kind not in (None, str)]
    kinds += [types.Refusal, types.Liveness]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {kind.__name__: schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for method, path, summary, query, body, answer in CALLS:
        place = paths.setdefault(path, {"parameters": _in_path(path)})
        place[method] = _operation(summary, query, body, answer, by_kind)
    security = {
        "session": {"type": "apiKey", "in": "header", "name": "EDL-Token"},
        "bearer": {"type": "http", "scheme": "bearer"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "EDL web", "version": edl.__version__, "description": (types.__doc__ or "").strip()},
        "security": [{"session": []}, {"bearer": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": security},
    }


def _in_path(path: str) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _operation(summary: str, query: tuple[str, ...], body: Any, answer: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    refusal = {"description": "Refused; `code` is stable.", "content": _json(schemas["Refusal"])}
    texts: dict[Any, dict[str, Any]] = {None: {"text/event-stream": {}}, str: {"text/plain": {}}}
    content = texts[answer] if answer in texts else _json(schemas[answer.__name__])
    done = {"description": "Done.", "content": content}
    operation: dict[str, Any] = {
        "summary": summary,
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in query],
        "responses": {"200": done, **dict.fromkeys(("400", "401", "403", "404", "429", "503"), refusal)},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(schemas[body.__name__])}
    return operation


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
