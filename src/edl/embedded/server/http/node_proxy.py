"""Relays logs, exec, attach and port-forward to the pod's node (`edl.embedded.streaming`)."""

import ssl
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp import web

from edl.embedded.server import status
from edl.embedded.server.core import Core, decode
from edl.embedded.server.verbs.call import Call, Object
from edl.embedded.streaming import streams

_LOG_PARAMETERS = ("follow", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps", "limitBytes")
_CONNECT_SECONDS = 10.0


class NodeProxy:
    def __init__(self, core: Core, tls: ssl.SSLContext | None) -> None:
        self._core = core
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        return self._session

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def serve(self, http: web.BaseRequest, call: Call) -> web.StreamResponse:
        pod = self._pod(call)
        if call.subresource == "log":
            return await self._logs(http, call, pod)
        if call.subresource == "portforward":
            path, query = f"/portForward/{_place(call)}", urlencode([("port", one) for one in call.query.all("ports")])
            offered: tuple[str, ...] = streams.PORT_FORWARD_PROTOCOLS
        else:
            path = f"/{call.subresource}/{_place(call)}/{_container(call, pod)}"
            query, offered = _command_query(call), streams.REMOTE_COMMAND_PROTOCOLS
        url = self._url(pod, path, query)
        if http.headers.get("Upgrade", "").lower() != "websocket":
            raise status.bad_request("Upgrade request required: exec, attach and port-forward come by WebSocket here")
        return await self._relay(http, url, offered)

    def _pod(self, call: Call) -> Object:
        entry = self._core.store.get("/pods", call.key)
        if entry is None:
            raise call.not_found()
        pod: Object = decode(entry.body)
        return pod

    def _url(self, pod: Object, path: str, query: str) -> str:
        name = pod["spec"].get("nodeName", "")
        if not name:
            raise status.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        entry = self._core.store.get("/nodes", ("", name))
        if entry is None:
            raise status.not_found("", "nodes", name)
        node = decode(entry.body)["status"]
        address = next((a["address"] for a in node.get("addresses") or () if a["type"] == "InternalIP"), "")
        port = node.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port", 0)
        if not address or not port:
            raise status.internal(f"node {name} has not said where it can be called")
        scheme = "https" if self._tls is not None else "http"
        return f"{scheme}://{address}:{port}{path}" + (f"?{query}" if query else "")

    async def _logs(self, http: web.BaseRequest, call: Call, pod: Object) -> web.StreamResponse:
        container = _container(call, pod)
        if not pod["spec"].get("nodeName"):
            return web.Response(status=204)
        given = {name: call.query.get(name) for name in _LOG_PARAMETERS if name in call.query}
        url = self._url(pod, f"/containerLogs/{_place(call)}/{quote(container)}", urlencode(given))
        try:
            async with self._client().get(url, ssl=self._tls or False) as answer:
                if answer.status != 200:
                    raise _node_refused(answer.status, (await answer.text()).strip())
                response = web.StreamResponse(
                    headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"}
                )
                await response.prepare(http)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                return response
        except aiohttp.ClientError as error:
            raise status.internal(f'Get "{url}": {error}') from None

    async def _relay(self, http: web.BaseRequest, url: str, offered: tuple[str, ...]) -> web.StreamResponse:
        wanted = [part.strip() for part in http.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        chosen = next((name for name in wanted if name in offered), "")
        if not chosen:
            raise status.bad_request(
                f"unable to upgrade: none of the protocols {wanted} is spoken, only {list(offered)}"
            )
        try:
            node = await self._client().ws_connect(
                url, protocols=[chosen], ssl=self._tls or False, max_msg_size=16 << 20
            )
        except aiohttp.WSServerHandshakeError as error:
            raise _node_refused(error.status, f"the node refused: {error.message}") from None
        except aiohttp.ClientError as error:
            raise status.internal(f"error dialing backend: {error}") from None
        client = web.WebSocketResponse(protocols=[chosen], max_msg_size=16 << 20, timeout=2)
        try:
            await client.prepare(http)
            await streams.relay(client, node)
        finally:
            await node.close()
        return client


def _place(call: Call) -> str:
    return f"{quote(call.namespace)}/{quote(call.name)}"


def _node_refused(code: int, text: str) -> status.ApiError:
    if code == 404:
        return status.ApiError(404, "NotFound", text or "the server could not find the requested resource", {})
    if code == 400:
        return status.bad_request(text)
    return status.internal(text)


def _container(call: Call, pod: Object) -> str:
    spec = pod["spec"]
    everyone = [container["name"] for kind in ("containers", "initContainers") for container in spec.get(kind) or ()]
    wanted = call.query.get("container")
    name = pod["metadata"]["name"]
    if wanted:
        if wanted not in everyone:
            raise status.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(spec["containers"]) == 1:
        return str(spec["containers"][0]["name"])
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in everyone and call.subresource == "log":
        return str(default)
    listed = " ".join(
        container["name"] for kind in ("initContainers", "containers") for container in spec.get(kind) or ()
    )
    raise status.bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")


def _command_query(call: Call) -> str:
    pairs = [("command", part) for part in call.query.all("command")]
    for ours, theirs in (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")):
        if call.query.flag(ours):
            pairs.append((theirs, "1"))
    return urlencode(pairs)
