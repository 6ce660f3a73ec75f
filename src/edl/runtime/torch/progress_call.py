"""One call of the job service, POST /progress, for pods that have the standard library and torch alone."""

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from edl.runtime.environment import Environment
from edl.runtime.tls import tls_context

TIMEOUT = 15.0


@dataclass(frozen=True)
class ProgressCall:
    url: str
    token: str
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, env: Environment) -> "ProgressCall":
        tls = tls_context(env.service_ca) if env.service_url.startswith("https:") else None
        job = f"{urllib.parse.quote(env.namespace)}/{urllib.parse.quote(env.job)}"
        return cls(f"{env.service_url.rstrip('/')}/v1/jobs/{job}/progress", env.token, tls)

    def send(self, report: Mapping[str, object]) -> None:
        """A ProgressReport as a mapping. Raises an OSError if it did not arrive."""
        parts = urllib.parse.urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection = (
            http.client.HTTPSConnection(parts.netloc, timeout=TIMEOUT, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT)
        )
        try:
            connection.request("POST", parts.path, json.dumps(report), headers)
            status = connection.getresponse().status
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if status != 200:
            raise OSError(f"the job service answers {status}")
