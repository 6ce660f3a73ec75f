"""Where a call comes from: under a name that is ours, and if it changes anything, from a page of ours."""

from collections.abc import Collection

from aiohttp import web

from edl.web.errors import forbidden

OURS = "EDL-Request"  # a header that no form, image or other site can send
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_origin(request: web.Request, hosts: Collection[str] | None) -> None:
    """`hosts`: names under which the page may be asked for; None: any. RefusedError says what is wrong."""
    if hosts is not None and _name(request.host) not in hosts:
        raise forbidden("this page is not served under that name")
    if request.method in ("GET", "HEAD"):
        return
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
    foreign = origin is not None and origin.partition("://")[2] != request.host
    if OURS not in request.headers or foreign or site not in ("same-origin", "none"):
        raise forbidden(f"only this page itself may send that ({OURS} is missing, or the origin is another)")


def _name(host: str) -> str:
    """Without the port and the brackets of an IPv6 address."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).strip("[]")
