"""Which cluster a command talks to: --kubeconfig, else $KUBECONFIG, else `edl up`'s, else what kubectl would take.

The HTTP stack is imported here and only when a command connects, so that `edl --help` stays quick.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edl.kube.client import Client

UNREACHABLE = 3  # exit code: the cluster does not answer


def add_cluster_options(parser: argparse.ArgumentParser, *, everywhere: bool = False) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default: the namespace of the kubeconfig's context")
    if everywhere:
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def home() -> Path:
    """Where the embedded cluster lives."""
    return Path(os.environ.get("EDL_HOME") or Path.home() / ".edl")


def chosen_kubeconfig(wanted: str | None) -> str | None:
    """None leaves the choice to kubectl's own rules."""
    if wanted or os.environ.get("KUBECONFIG"):
        return wanted
    embedded = home() / "kubeconfig"
    return str(embedded) if embedded.exists() else None


@asynccontextmanager
async def connected(options: argparse.Namespace) -> AsyncIterator[tuple["Client", str]]:
    """A client, and the namespace that the command works in."""
    from edl.kube.client import Client
    from edl.kube.kubeconfig import load_account
    from edl.kube.transport import HttpTransport

    account = load_account(chosen_kubeconfig(options.kubeconfig))
    client = Client(HttpTransport(account), field_manager="edl-cli", timeout=15.0)
    try:
        yield client, options.namespace or account.namespace
    finally:
        await client.close()


def with_cluster(work: Callable[["Client", str], Awaitable[int]], options: argparse.Namespace) -> int:
    """Runs a command against the cluster; what goes wrong becomes one line that says what to do."""
    from edl.kube.errors import ApiError, KubeError

    async def main() -> int:
        async with connected(options) as (client, namespace):
            return await work(client, namespace)

    try:
        return asyncio.run(main())
    except ApiError as error:
        print(f"edl: {error.status.message}", file=sys.stderr)
        return 1
    except KubeError as error:
        print(f"edl: {error}\nedl: is there a cluster? `edl up` starts one on this machine", file=sys.stderr)
        return UNREACHABLE
