"""Optional features of the API server, found once by discovery."""

from typing import Any

import msgspec

from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import Request


async def can_resize(client: Client) -> bool:
    """Whether running pods can be given other resources (`pods/resize`)."""
    try:
        answer = await client.raw(Request("GET", "/api/v1"))
    except ApiError:
        return False
    found = msgspec.json.decode(answer.body, type=dict[str, Any])
    return any(isinstance(one, dict) and one.get("name") == "pods/resize" for one in found.get("resources") or ())
