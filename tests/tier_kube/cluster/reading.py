"""Objects read from an API server directly, over a connection that is kept: tests ask for them again and again, and
every kubectl takes a tenth of a second of the processor, which the rest of the cluster needs too.

Only for kubeconfigs that hold a token and whom to trust, as ours do. Resources are called as kubectl's users call them.
"""

import base64
import functools
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

_TIMEOUT = 30.0
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
Object = dict[str, Any]


class ReadError(Exception):
    """The API server refused, or was not there; the message says what was asked for."""


@dataclass(frozen=True)
class Place:
    """Where the objects of a resource are."""

    root: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str, labels: str) -> str:
        within = f"namespaces/{namespace}/" if self.namespaced else ""
        which = f"/{quote(name)}" if name else f"?labelSelector={quote(labels)}" if labels else ""
        return f"{self.root}/{within}{self.plural}{which}"


def reader_of(kubeconfig: Path) -> "Reader | None":
    """None where only kubectl knows how to introduce itself."""
    return _reader(kubeconfig, kubeconfig.stat().st_mtime_ns)


@functools.cache
def _reader(kubeconfig: Path, changed: int) -> "Reader | None":
    del changed  # another cluster of the same name has other credentials
    config = yaml.safe_load(kubeconfig.read_text())
    if len(config["clusters"]) != 1 or len(config["users"]) != 1:
        return None
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority, token = cluster.get("certificate-authority-data"), user.get("token")
    return Reader(cluster["server"], base64.b64decode(authority).decode(), token) if authority and token else None


class Reader:
    """One API server, which is asked one thing after the other."""

    def __init__(self, server: str, authority: str, token: str) -> None:
        trust = ssl.create_default_context(cadata=authority)
        self._connection = http.client.HTTPSConnection(urlsplit(server).netloc, context=trust, timeout=_TIMEOUT)
        self._token = token
        self._turn = threading.Lock()
        self._places: dict[str, Place] = {}

    def get(self, namespace: str, resource: str, name: str = "", *, labels: str = "") -> Object:
        """One object, or those of a resource; of several resources (`leases,pods`), as kubectl lists them."""
        if "," not in resource:
            return self._ask(self._place(resource).path(namespace, name, labels))
        lists = [self.get(namespace, each, labels=labels) for each in resource.split(",")]
        return {"kind": "List", "items": [item for each in lists for item in each["items"]]}

    def _place(self, resource: str) -> Place:
        if resource not in self._places:  # kinds come while tests run
            self._places = dict(reversed([*self._discovered()]))
        if resource not in self._places:
            raise ReadError(f"the server has no resource {resource}")
        return self._places[resource]

    def _discovered(self) -> Iterator[tuple[str, Place]]:
        """By every name that it has; where two have the same, the first one counts."""
        for start in ("/api", "/apis"):
            for group in self._ask(start, _DISCOVERY)["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    root = "/".join(part for part in (start, name, version["version"]) if part)
                    for found in version["resources"]:
                        place = Place(root, found["resource"], found["scope"] == "Namespaced")
                        kind = found["responseKind"]["kind"].lower()
                        for word in (found["resource"], found["singularResource"], kind, *found.get("shortNames", [])):
                            yield word, place
                            yield f"{word}.{name}", place

    def _ask(self, path: str, accept: str = "application/json") -> Object:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                with self._turn:
                    status, body = self._answer(path, accept)
            except (OSError, http.client.HTTPException) as error:
                raise ReadError(f"GET {path}: {error!r}") from error
            if status == HTTPStatus.OK:
                return _as_printed(json.loads(body))
            # As of a kind that was just made, until its storage is ready: every client asks again.
            if status != HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() > deadline:
                raise ReadError(f"GET {path}: {status} {body.decode(errors='replace')}")
            time.sleep(0.2)

    def _answer(self, path: str, accept: str) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        try:
            return self._exchange(path, headers)
        except (OSError, http.client.HTTPException):  # kept too long, or the server has started anew
            self._connection.close()
        try:
            return self._exchange(path, headers)
        except BaseException:
            self._connection.close()
            raise

    def _exchange(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers=headers)
        response = self._connection.getresponse()
        return response.status, response.read()


def _as_printed(found: Object) -> Object:
    """Objects of a list do not say what they are, because the list does; and who wrote which field only takes room."""
    for item in found.get("items", (found,)):
        item.setdefault("kind", found["kind"].removesuffix("List"))
        item.setdefault("apiVersion", found["apiVersion"])
        item["metadata"].pop("managedFields", None)
    return found
