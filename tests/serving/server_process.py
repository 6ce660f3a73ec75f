"""Servers in a process of their own, whose memory and log can be looked at: `python -m tests.serving.server_process
WHICH [DESCRIPTORS]` prints its port and serves until its input ends."""

import asyncio
import logging
import resource
import ssl
import sys
import tempfile
from pathlib import Path

import msgspec
from aiohttp import web

from edl.certificates import Authority
from edl.runtime import rpc
from edl.serving.http import proved, serve_app


def context() -> ssl.SSLContext:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    Authority.create("test").issue("test", hosts=["localhost"]).load_into(tls)
    return tls


async def http() -> None:
    async def hello(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer good":
            return web.Response(status=401)
        proved(request)
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    runner = await serve_app(app, "127.0.0.1", 0, tls=context())
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


class Hello(msgspec.Struct, tag=True):
    pass


class Sessions:
    messages = Hello

    def connected(self) -> "Sessions":
        return self

    def handle(self, message: object, payload: memoryview) -> rpc.Reply:
        return rpc.Reply()

    def closed(self) -> None: ...


def raw() -> None:
    listener = rpc.listen("127.0.0.1", 0)
    server = rpc.Server(Sessions(), "token", listener)
    server.start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
    server.close()


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
    with tempfile.TemporaryDirectory() as folder:
        assert Path(folder).exists()
        if sys.argv[1] == "http":
            asyncio.run(http())
        else:
            raw()


if __name__ == "__main__":
    main()
