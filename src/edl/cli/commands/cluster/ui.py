"""Open the page of the cluster in a browser, logged in; without a display its address is printed.

For the cluster of `edl up` the page is served beside it. One that has the page (`edl install --web`) shows its own: a
port on loopback leads there through the API server, with your kubeconfig, until Ctrl-C. For others the page is served
here, with the rights of your kubeconfig. With `--history`, a recording is shown in place of a cluster.
"""

import argparse
import os
import sys

from edl.cli.connect.cluster import chosen_kubeconfig, home, is_local

SUMMARY = "open the page of the cluster in a browser"
ORDER = 25


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--print", action="store_true", help="print the address, open nothing")
    parser.add_argument("--actions", action="store_true", help="may scale, pause and delete, too (default: only looks)")
    parser.add_argument("--history", metavar="FILE", help="no cluster: what `edl simulate --record` wrote to this file")
    parser.add_argument("--own", action="store_true", help="serve the page here, though the cluster has one")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="where EDL is installed (default: edl-system)")


def run(options: argparse.Namespace) -> int:
    opens = not options.print and _has_display()
    if not options.history and is_local(options):
        url = _local(actions=options.actions)
        print(url, flush=True)
        if opens:
            import webbrowser

            webbrowser.open(url)
        return 0
    return _serve(options, opens)


def _has_display() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _local(*, actions: bool) -> str:
    """The address with a one-time code in its fragment, which no server and no log is ever sent."""
    import http.client
    import json
    from urllib.parse import urlsplit

    from edl.cli.errors import CommandError

    file, token = home() / "web.url", home() / "token"
    try:
        url, secret = file.read_text().strip(), token.read_text().strip()
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=15.0)
        headers = {"Authorization": f"Bearer {secret}", "EDL-Request": "1"}
        connection.request("POST", f"/api/v1/codes{'?actions=1' if actions else ''}", headers=headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise CommandError(f"the page does not answer ({error}); is the cluster up? `edl up` starts it") from None
    if answer.status != 200:
        raise CommandError(f"the page refuses: {said.get('error')}")
    return f"{url}/#code={said['code']}"


def _serve(options: argparse.Namespace, opens: bool) -> int:
    import asyncio

    from edl.cli.connect.cluster import UNREACHABLE
    from edl.cli.errors import CommandError
    from edl.kube.rest.errors import KubeError

    try:
        return asyncio.run(_serve_either(options, opens))
    except ValueError as error:
        raise CommandError(str(error)) from None
    except KubeError as error:
        print(f"edl: {error}", file=sys.stderr)
        return UNREACHABLE


async def _serve_either(options: argparse.Namespace, opens: bool) -> int:
    """The cluster's page if it can be had, else ours."""
    from edl.cli.commands.services.web import arguments as web_arguments
    from edl.cli.commands.services.web import serve
    from edl.web.tunnel import NoPageError

    if not options.history and not options.own:
        try:
            return await _tunnel(options, opens)
        except NoPageError as error:
            print(f"edl: {error}; the page is served here, with your rights", file=sys.stderr)
    parser = argparse.ArgumentParser()
    web_arguments(parser)
    given = ["--kubeconfig", options.kubeconfig] if options.kubeconfig else []
    given += ["--history", options.history] if options.history else []
    chosen = parser.parse_args([*given, *(["--actions"] if options.actions else [])])
    return await serve(chosen, open_browser=opens)


async def _tunnel(options: argparse.Namespace, opens: bool) -> int:
    from edl.cli.commands.services.web import show
    from edl.kube.auth.kubeconfig import load_client_config
    from edl.operator.settings import NAMESPACE
    from edl.web.tunnel import Tunnel

    tunnel = Tunnel(load_client_config(chosen_kubeconfig(options.kubeconfig)), options.namespace or NAMESPACE)
    try:
        await tunnel.check()
        await tunnel.own_token()
        async with tunnel.serving("127.0.0.1", 0) as url:
            code = await tunnel.code(actions=options.actions)
            await show(f"{url}/#code={code}", opens=opens)
    finally:
        await tunnel.close()
    return 0
