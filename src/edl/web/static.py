"""The page itself: files of this package, read once, served from memory with headers that let nothing else in.

No other host, no inline script or style, no frame around it. Names are those of the files: no path is ever opened.
"""

import gzip
import hashlib
from importlib import resources
from types import MappingProxyType

import msgspec
from aiohttp import web

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }
)
INDEX = "index.html"


class Asset(msgspec.Struct, frozen=True):
    body: bytes
    compressed: bytes
    content_type: str
    tag: str


def assets() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    for file in resources.files("edl.web").joinpath("assets").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in TYPES:
            body = file.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[file.name] = Asset(body, gzip.compress(body, 9, mtime=0), TYPES[suffix], tag)
    return found


class Pages:
    def __init__(self) -> None:
        self._assets = assets()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self._index), web.get("/assets/{name}", self._asset)]

    async def _index(self, request: web.Request) -> web.Response:
        return self._answer(request, self._assets[INDEX])

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        return self._answer(request, asset)

    def _answer(self, request: web.Request, asset: Asset) -> web.Response:
        headers = {"ETag": asset.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if asset.tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        body = asset.body
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = asset.compressed, "gzip"
        return web.Response(body=body, content_type=asset.content_type, charset="utf-8", headers=headers)
