"""Connects a command to a cluster: --kubeconfig, else $KUBECONFIG, else `edl up`'s, else what kubectl would take.

The HTTP stack and asyncio are imported here and only when a command connects, so that `edl COMMAND --help` stays quick.
"""

import argparse
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edl.cli.output.terminal import harmless

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

UNREACHABLE = 3  # exit code: the cluster does not answer


def add_cluster_options(parser: argparse.ArgumentParser, *, all_namespaces: bool = False) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default: the namespace of the kubeconfig's context")
    if all_namespaces:
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def home() -> Path:
    """The directory of the local cluster."""
    return Path(os.environ.get("EDL_HOME") or Path.home() / ".edl")


def chosen_kubeconfig(wanted: str | None) -> str | None:
    """None leaves the choice to kubectl's own rules."""
    if wanted or os.environ.get("KUBECONFIG"):
        return wanted
    embedded = home() / "kubeconfig"
    return str(embedded) if embedded.exists() else None


def is_local(options: argparse.Namespace) -> bool:
    """Whether the command is about the cluster of `edl up`, by whatever name it was chosen."""
    chosen = options.kubeconfig or os.environ.get("KUBECONFIG") or chosen_kubeconfig(None)
    if not chosen:
        return False
    own = home() / "kubeconfig"
    return own.exists() and os.path.exists(chosen) and os.path.samefile(chosen, own)


@asynccontextmanager
async def connected(options: argparse.Namespace) -> AsyncIterator[tuple["Client", str]]:
    """A client, and the namespace that the command works in."""
    from edl.kube.auth.kubeconfig import load_client_config
    from edl.kube.rest.client import Client
    from edl.kube.rest.transport import HttpTransport

    config = load_client_config(chosen_kubeconfig(options.kubeconfig))
    client = Client(HttpTransport(config), field_manager="edl-cli", timeout=15.0)
    try:
        yield client, options.namespace or config.namespace
    finally:
        await client.close()


def with_cluster(work: Callable[["Client", str], Awaitable[int]], options: argparse.Namespace) -> int:
    """Runs a command against the cluster; what goes wrong becomes one line that says what to do."""
    import asyncio

    from edl.kube.rest.errors import ApiError, KubeError

    async def main() -> int:
        async with connected(options) as (client, namespace):
            return await work(client, namespace)

    try:
        return asyncio.run(main())
    except ApiError as error:
        print(f"edl: {harmless(error.status.message)}", file=sys.stderr)
        return 1
    except KubeError as error:
        hint = "edl: `edl up` starts one on this machine, --kubeconfig names another"
        print(f"edl: no cluster answers: {harmless(str(error))}\n{hint}", file=sys.stderr)
        return UNREACHABLE
