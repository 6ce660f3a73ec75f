"""Sends the requests of a case and compares each response with the one recorded from a real kube-apiserver.

The expectation of the n-th compared request of a test is the n-th entry under the test's name in
`expected/<module>.json` (`conftest.Recorded`). Before the comparison, whatever differs from run to run is replaced by
placeholders.
"""

import asyncio
import io
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from yarl import URL

Json = Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
_ADDRESS = re.compile(r"\b(10|127)\.(9[6-9]|1[01]\d)\.\d+\.\d+\b")
_AGE = re.compile(r"<invalid>|\d+s\Z")
_SUFFIX = re.compile(r"\b(made-)[a-z0-9]{5}\b")
_VERSION_IN_TEXT = re.compile(r"(resource version: |current: |\()\d+")
_VERSION_IN_QUERY = re.compile(r"resourceVersion=\d{2,7}\b")
_MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Endpoint:
    """An API server: `kind` is embedded or real."""

    kind: str
    url: str
    token: str
    kubeconfig: str


class Expectation(Protocol):
    """Records a response, or compares it with the recorded one."""

    def step(self, request: str, observed: Json) -> None: ...


class Trace:
    """The requests of one case, in a namespace of its own."""

    def __init__(
        self, endpoint: Endpoint, session: aiohttp.ClientSession, namespace: str, expected: Expectation
    ) -> None:
        self.endpoint = endpoint
        self.namespace = namespace
        self.core = f"/api/v1/namespaces/{namespace}"
        self._session = session
        self._expected = expected
        self._names: dict[str, str] = {}

    def group(self, group_version: str) -> str:
        """The base path of a group's namespaced resources."""
        return f"/apis/{group_version}/namespaces/{self.namespace}"

    # -- requests that are compared -----------------------------------------------------------------------------------

    async def get(self, path: str, **options: Any) -> Json:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Json, **options: Any) -> Json:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Json, **options: Any) -> Json:
        return await self.call("PUT", path, body, **options)

    async def patch(self, path: str, body: Json, kind: str = _MERGE, **options: Any) -> Json:
        short = {"json": "application/json-patch+json", "strategic": "application/strategic-merge-patch+json"}
        return await self.call("PATCH", path, body, content_type=short.get(kind, kind), **options)

    async def apply(
        self, path: str, body: Json, manager: str = "alice", *, force: bool = False, **options: Any
    ) -> Json:
        query = {"fieldManager": manager, **({"force": "true"} if force else {}), **options.pop("query", {})}
        return await self.call("PATCH", path, body, content_type="application/apply-patch+yaml", query=query, **options)

    async def delete(self, path: str, body: Json = None, **options: Any) -> Json:
        return await self.call("DELETE", path, body, **options)

    async def call(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        query: dict[str, str] | None = None,
        show: str = "",
        managed: bool = False,
        view: Callable[[Json], Json] | None = None,
        code: int | None = None,
        **options: Any,
    ) -> Json:
        """Makes a request and compares the response with the next recorded one. `show` narrows what is compared to a
        dotted path, `view` to the result of a function, `managed` includes managedFields. Returns the whole response.

        `code` is the answer's, wherever all cases of a call have the same: it shows beside the call what is expected.
        """
        got, answer, warnings = await self.send(method, path, body, query=query, **options)
        assert code in (None, got), answer
        observed: dict[str, Json] = {"code": got}
        part = view(answer) if view is not None else _select(answer, show) if got < 300 else answer
        observed["body"] = self.masked(part, managed)
        if warnings:
            observed["warnings"] = warnings
        asked = f"{method} {path}" + (f"?{urlencode(query)}" if query else "")
        self._expected.step(self._text(asked), observed)
        return answer

    async def watch(
        self,
        path: str,
        query: dict[str, str],
        count: int,
        meanwhile: Callable[[], Awaitable[Any]] | None = None,
        show: str = "",
    ) -> list[Json]:
        """Collect `count` events of a watch, doing something `meanwhile`, and compare their types and objects."""
        lines: list[Json] = []
        url = self._url(path, {"watch": "true", **query})
        async with asyncio.timeout(30), self._session.get(url, headers=self._headers("application/json")) as answer:
            reader = asyncio.create_task(_events(answer, count, lines))
            if meanwhile is not None:
                await meanwhile()
            await reader
        observed = [
            {"type": line["type"], "object": self.masked(_select(line["object"], show), False)} for line in lines
        ]
        asked = f"WATCH {path}?{urlencode(query)}"
        self._expected.step(self._text(asked), {"code": answer.status, "body": observed})
        return lines

    # -- requests that only prepare
    # -------------------------------------------------------------------------------------

    async def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
        agent: str = "tester/1",
        raw: bool = False,
    ) -> tuple[int, Json, list[str]]:
        """(code, decoded body, warnings), compared with nothing."""
        headers = self._headers(accept, token) | {"User-Agent": agent}
        data: io.BytesIO | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with self._session.request(method, self._url(path, query), data=data, headers=headers) as answer:
            text = await answer.text()
            warnings = [
                value.removeprefix('299 - "')[:-1].replace('\\"', '"') for value in answer.headers.getall("Warning", [])
            ]
        try:
            return answer.status, text if raw else json.loads(text), warnings
        except ValueError:
            return answer.status, text, warnings

    async def make(self, path: str, body: Json) -> Json:
        """Create something that the case needs; it must work."""
        code, answer, _ = await self.send("POST", path, body)
        assert code == 201, answer
        return answer

    def _headers(self, accept: str, token: str | None = None) -> dict[str, str]:
        token = self.endpoint.token if token is None else token
        return {"Accept": accept, **({"Authorization": f"Bearer {token}"} if token else {})}

    def _url(self, path: str, query: dict[str, str] | None) -> URL:
        text = f"{self.endpoint.url}{path}" + (f"?{urlencode(query)}" if query else "")
        return URL(text, encoded=True)

    # -- what differs from run to run
    # -----------------------------------------------------------------------------------

    def masked(self, value: Json, managed: bool) -> Json:
        if isinstance(value, dict):
            return {
                self._text(key): self._field(key, item, managed)
                for key, item in value.items()
                if (managed or key != "managedFields") and not _is_noise(key, item)
            }
        if isinstance(value, list):
            return [self.masked(item, managed) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: Json, managed: bool) -> Json:
        if key in ("resourceVersion", "continue") and isinstance(value, str) and value:
            return "<rv>" if key == "resourceVersion" else "<token>"
        if key == "causes" and isinstance(value, list):  # some rules run twice in a real server
            return [
                json.loads(text) for text in dict.fromkeys(json.dumps(self.masked(each, managed)) for each in value)
            ]
        if key in ("managedFields", "managers") and isinstance(value, list):  # their order hangs on the second
            value = sorted(
                value, key=lambda entry: (entry["operation"], entry["manager"], entry.get("subresource", ""))
            )
        return self.masked(value, managed)

    def _text(self, text: str) -> str:
        if _AGE.match(text):
            return "<age>"
        text = text.replace(self.namespace, "<ns>")
        for uid in _UID.findall(text):
            text = text.replace(uid, self._names.setdefault(uid, f"<uid-{len(self._names) + 1}>"))
        text = _TIME.sub("<time>", text)
        text = _TOKEN_VOLUME.sub("kube-api-access-<x>", text)
        text = _SUFFIX.sub(r"\1<x>", text)
        text = _VERSION_IN_TEXT.sub(r"\1<rv>", text)
        text = _VERSION_IN_QUERY.sub("resourceVersion=<rv>", text)
        return _ADDRESS.sub("<ip>", text)


def _is_noise(key: str, value: Json) -> bool:
    """Descriptions of columns are prose; an empty `continue` says nothing."""
    return (key == "description" and isinstance(value, str)) or (key == "continue" and value == "")


def _select(value: Json, path: str) -> Json:
    for name in filter(None, path.split(".")):
        if isinstance(value, list):
            value = value[int(name)] if name.isdigit() else [item.get(name) for item in value]
        elif isinstance(value, dict):
            value = value.get(name)
    return value


async def _events(answer: aiohttp.ClientResponse, count: int, lines: list[Json]) -> None:
    pending = b""
    async for chunk in answer.content.iter_any():
        pending += chunk
        *whole, pending = pending.split(b"\n")
        for line in whole:
            lines.append(json.loads(line))
            if len(lines) == count:
                return
