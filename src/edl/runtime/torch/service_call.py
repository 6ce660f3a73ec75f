"""Calls over HTTP with a token, for pods that have the standard library and torch alone."""

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from edl.runtime.environment import Environment
from edl.runtime.tls import tls_context

TIMEOUT = 15.0
LONGEST = 1 << 20  # bytes of an answer that are read


@dataclass(frozen=True)
class Endpoint:
    """One path of a service, and what opens it."""

    url: str
    token: str
    tls: ssl.SSLContext | None = None

    def call(self, method: str, body: bytes | None = None, *, timeout: float = TIMEOUT) -> "Answer":
        """Any answer at all. Raises an OSError if there is none."""
        parts = urllib.parse.urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection = (
            http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(parts.netloc, timeout=timeout)
        )
        try:
            connection.request(method, parts.path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheader("Content-Type", ""), answer.read(LONGEST))
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True)
class ProgressCall:
    """POST /progress of the job service."""

    endpoint: Endpoint

    @classmethod
    def of(cls, env: Environment) -> "ProgressCall":
        tls = tls_context(env.service_ca) if env.service_url.startswith("https:") else None
        job = f"{urllib.parse.quote(env.namespace)}/{urllib.parse.quote(env.job)}"
        return cls(Endpoint(f"{env.service_url.rstrip('/')}/v1/jobs/{job}/progress", env.token, tls))

    def send(self, report: Mapping[str, object]) -> None:
        """A ProgressReport as a mapping. Raises an OSError if it did not arrive."""
        status = self.endpoint.call("POST", json.dumps(report).encode()).status
        if status != 200:
            raise OSError(f"the job service answers {status}")
