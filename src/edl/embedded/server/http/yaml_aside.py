"""YAML without holding up the event loop: large bodies and responses are converted in a thread, one at a time.

YAML costs about a thousand times what JSON does: a request of three MiB would stop the server for many seconds.
"""

import asyncio

import msgspec
import yaml

from edl.embedded.server.verbs import body as bodies
from edl.embedded.server.verbs.call import Response
from edl.embedded.server.verbs.patch import APPLY_PATCH

MEDIA_TYPE = "application/yaml"
_SMALL = 16 << 10


class YamlAside:
    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)  # several threads would take their time from the event loop

    async def parse(self, body: bytes, content_type: str) -> bytes:
        """The body as JSON, if it is large YAML, else nothing: the handler parses it itself."""
        media = content_type.partition(";")[0].strip().lower()
        if len(body) <= _SMALL or media not in (MEDIA_TYPE, APPLY_PATCH) or _is_json(body):
            return b""
        async with self._turn:
            return await asyncio.to_thread(bodies.yaml_to_json, body)

    async def render(self, response: Response) -> Response:
        """The response in YAML, if that was negotiated. Handlers leave JSON under the content type of YAML."""
        if response.content_type != MEDIA_TYPE:
            return response
        if len(response.body) <= _SMALL:
            response.body = _to_yaml(response.body)
            return response
        async with self._turn:
            response.body = await asyncio.to_thread(_to_yaml, response.body)
        return response


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return body[:1] == b"{"


def _to_yaml(body: bytes) -> bytes:
    return yaml.safe_dump(msgspec.json.decode(body), sort_keys=False, default_flow_style=False).encode()
