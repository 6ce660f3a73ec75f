"""Serve the page of a cluster: its jobs, why each has its size, how it trains, its logs; live, in a browser.

On loopback it is for you alone, with the rights of your kubeconfig: the address that is printed logs you in, once.
With `--viewers cluster`, in a pod, everybody logs in with a token of the cluster and sees what that account may see.
With `--history`, a recording is shown in place of a cluster.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import UNREACHABLE, chosen_kubeconfig, is_local

if TYPE_CHECKING:
    import ssl
    from contextlib import AsyncExitStack

    from edl.brain.database import Database
    from edl.kube.auth.credentials import ClientConfig
    from edl.web.access.viewers import Door
    from edl.web.model.history import History

SUMMARY = "serve the page of a cluster"
ORDER = 216
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def arguments(parser: argparse.ArgumentParser) -> None:
    from edl.scheduler.policies.registry import DEFAULT_POLICY, POLICIES

    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("--history", metavar="FILE", help="no cluster: what `edl simulate --record` wrote to this file")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:0", help="default: a free port on loopback")
    parser.add_argument(
        "--viewers",
        choices=("local", "cluster"),
        default="local",
        help="who is let in: you, or whoever has a token of the cluster (%(default)s)",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="serve over TLS with this certificate chain")
    parser.add_argument("--tls-key", metavar="FILE", help="and this key")
    parser.add_argument(
        "--tls-self-signed", metavar="HOST", help="where those files are not there: a certificate of its own for HOST"
    )
    parser.add_argument(
        "--plain-http", action="store_true", help="no TLS beyond loopback: a proxy in front of it has ended it"
    )
    parser.add_argument("--actions", action="store_true", help="viewers may scale, pause and delete, with their rights")
    parser.add_argument(
        "--policy", choices=tuple(POLICIES), default=DEFAULT_POLICY, help="the operator's, for plans (%(default)s)"
    )
    parser.add_argument("--brain-url", metavar="URL", help="the Brain that keeps the history (default: `edl up`'s)")
    parser.add_argument("--brain-token", metavar="FILE", help="a reader's token for it (`edl brain token @reader`)")
    parser.add_argument("--brain-key", metavar="FILE", help="in its place, the key that its tokens are made with")
    parser.add_argument("--brain-ca", metavar="FILE", help="who signed its certificate, if nobody public did")
    parser.add_argument("--max-load", default="0.97", metavar="X", help="the operator's, for plans (%(default)s)")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: an object per line (%(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    import asyncio

    from edl.cli.errors import CommandError
    from edl.kube.rest.errors import KubeError
    from edl.operator.logs import configure_logging

    configure_logging(options.log_format, verbose=False)
    try:
        return asyncio.run(serve(options))
    except ValueError as error:
        raise CommandError(str(error)) from None
    except KubeError as error:
        print(f"edl: {error}", file=sys.stderr)
        return UNREACHABLE


async def serve(options: argparse.Namespace, *, open_browser: bool = False) -> int:
    """Until SIGTERM or SIGINT."""
    from contextlib import AsyncExitStack

    host, port = address(options.listen)
    local = options.viewers == "local"
    if options.history and not local:
        raise ValueError("--history: a recording is for --viewers local")
    if local and host not in LOOPBACK:
        raise ValueError(f"--listen {options.listen}: beyond loopback it needs --viewers cluster")
    tls = _tls(options)
    if tls is None and host not in LOOPBACK and not options.plain_http:
        raise ValueError("beyond loopback it needs --tls-cert and --tls-key, or --plain-http behind a proxy")
    async with AsyncExitStack() as stack:
        url, code = await _start(options, stack, host, port, tls)
        await show(f"{url}{f'/#code={code}' if code else ''}", opens=open_browser and bool(code))
    return 0


async def show(address: str, *, opens: bool) -> None:
    """Says where the page is, and returns at SIGTERM or SIGINT."""
    import asyncio
    import signal

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"serving {address}", flush=True)
    if opens:
        import webbrowser

        await asyncio.to_thread(webbrowser.open, address)
    await stop.wait()


async def _start(
    options: argparse.Namespace, stack: "AsyncExitStack", host: str, port: int, tls: "ssl.SSLContext | None"
) -> tuple[str, str]:
    """The address, and a code for the one person it is for."""
    import secrets

    from edl.kube.auth.credentials import in_cluster_config
    from edl.kube.auth.kubeconfig import load_client_config
    from edl.kube.rest.client import Client
    from edl.kube.rest.rate_limiter import RateLimiter
    from edl.kube.rest.transport import HttpTransport
    from edl.scheduler.settings import Settings, parse_load
    from edl.web.access.sessions import Grant, Sessions
    from edl.web.model.state import ClusterState
    from edl.web.server import WebServer, WebSettings

    if options.history:
        return await _start_recorded(options.history, stack, host, port, tls)
    parse_load(options.max_load)
    local = options.viewers == "local"
    config = load_client_config(chosen_kubeconfig(options.kubeconfig)) if local else in_cluster_config()
    client = Client(HttpTransport(config), field_manager="edl-web", rate_limiter=RateLimiter(qps=200, burst=400))
    stack.push_async_callback(client.close)
    state, sessions, token = ClusterState(client), Sessions(), secrets.token_urlsafe(32)
    door = _door(config, client, token, local=local)
    stack.push_async_callback(door.close)
    settings = WebSettings(
        actions=options.actions,
        hosts=LOOPBACK if local else None,
        scheduler=Settings(policy=options.policy, max_load=options.max_load),
    )
    await stack.enter_async_context(state.running())
    history = _history(options)
    runner = await WebServer(state, door, settings, sessions=sessions, history=history).serve(host, port, tls)
    stack.push_async_callback(runner.cleanup)
    url = _url(host, runner.addresses[0][1], tls)
    return url, sessions.code(Grant(token, acts=options.actions)) if local else ""


def _url(host: str, port: int, tls: object) -> str:
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


async def _start_recorded(
    file: str, stack: "AsyncExitStack", host: str, port: int, tls: "ssl.SSLContext | None"
) -> tuple[str, str]:
    import secrets

    from edl.web.access.sessions import Grant, Sessions
    from edl.web.access.viewers import LocalDoor
    from edl.web.model.recorded import RecordedState, Recording, absent_cluster
    from edl.web.server import WebServer, WebSettings

    database = await _opened(file)
    stack.push_async_callback(database.close)
    sessions, token = Sessions(), secrets.token_urlsafe(32)
    server = WebServer(
        RecordedState(),
        LocalDoor(token, absent_cluster()),
        WebSettings(hosts=LOOPBACK),
        sessions=sessions,
        recording=Recording(database, os.path.basename(file)),
    )
    runner = await server.serve(host, port, tls)
    stack.push_async_callback(runner.cleanup)
    return _url(host, runner.addresses[0][1], tls), sessions.code(Grant(token))


async def _opened(file: str) -> "Database":
    from edl.brain.database import UnavailableError, connect

    _must_be_there(file)
    database = connect(file)
    try:
        await database.open()
    except UnavailableError as error:
        await database.close()
        raise ValueError(f"--history {error}") from None
    return database


def _must_be_there(file: str) -> None:
    if not os.path.isfile(file):
        raise ValueError(f"--history {file}: there is no such file; `edl simulate --record` writes one")


def _door(config: "ClientConfig", client: object, token: str, *, local: bool) -> "Door":
    from edl.kube.rest.access_reviews import Reviews
    from edl.kube.rest.client import Client
    from edl.web.access.viewers import ClusterDoor, LocalDoor, bearer_clients

    assert isinstance(client, Client)
    reviews = Reviews(client)
    if local:
        return LocalDoor(token, client, rights=reviews.of_myself())
    return ClusterDoor(reviews, bearer_clients(config))


def _history(options: argparse.Namespace) -> "History":
    """The Brain that is named. For the cluster of `edl up`, its own; else there is none that we could ask."""
    from pathlib import Path

    from edl.cli.connect.cluster import home
    from edl.web.model.history import BrainHistory, NoHistory, key_file, token_file

    if options.brain_url:
        if not options.brain_token and not options.brain_key:
            raise ValueError("--brain-url needs --brain-token: what Brain is shown to be read")
        given = token_file(Path(options.brain_token)) if options.brain_token else key_file(Path(options.brain_key))
        return BrainHistory(options.brain_url, given, ca=options.brain_ca or "")
    own = home()
    if options.viewers == "local" and is_local(options) and (own / "brain.url").exists():
        return BrainHistory((own / "brain.url").read_text().strip(), key_file(own / "brain.key"))
    return NoHistory()


def _tls(options: argparse.Namespace) -> "ssl.SSLContext | None":
    import ssl

    if bool(options.tls_cert) != bool(options.tls_key):
        raise ValueError("--tls-cert and --tls-key: give both")
    if options.tls_self_signed and not (options.tls_cert and os.path.exists(options.tls_cert)):
        from edl.certificates import Authority

        authority = Authority.create("edl-web")
        hosts = [options.tls_self_signed, "localhost", "127.0.0.1"]
        return authority.server_context(authority.issue("edl-web", hosts=hosts), accept_clients=False)
    if not options.tls_cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"--tls-cert {options.tls_cert}: {error}") from None
    return context


def address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"--listen {text}: wants HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)
