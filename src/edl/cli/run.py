"""Submit jobs and watch them until they end. Starts the cluster of this machine (`edl up`) if no other is chosen.

Exit code 0 if all succeeded, 1 if one failed, 130 if you left before. Ctrl-C asks whether to leave the jobs running or
to delete them; where nobody can be asked, they are left running.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .connect import add_cluster_options, home, with_cluster
from .describe import cause_of
from .follow import Watched, follow
from .jobs import Summary, resource_of
from .live import open_screen
from .main import INTERRUPTED, CommandError
from .submit import create, valid_manifests

if TYPE_CHECKING:
    from edl.kube.client import Client

QUESTION = "leave the jobs running (Enter), delete them (d), or go on watching (c)? "


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="files or directories of manifests, - for stdin")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    manifests = valid_manifests(options.files)
    own = not options.kubeconfig and not os.environ.get("KUBECONFIG")
    if own:
        ensure_up()
    return with_cluster(lambda client, namespace: _run(client, namespace, manifests, own), options)


def ensure_up() -> None:
    """The cluster of this machine runs when this returns."""
    from edl.embedded.home import HomeInUseError
    from edl.embedded.up import UpError, UpSettings, start

    if sys.platform != "linux":
        raise CommandError("process nodes need Linux; on another system use a Kubernetes cluster with --kubeconfig")
    try:
        running = start(UpSettings(home=home(), working_dir=os.getcwd()))
    except HomeInUseError:
        return
    except UpError as error:
        raise CommandError(str(error)) from None
    print(f"started a cluster on this machine at {running.url}; `edl down` stops it", flush=True)


async def _run(client: "Client", namespace: str, manifests: Sequence[dict[str, Any]], own: bool) -> int:
    if own:
        await _ensure_namespaces(client, manifests)
    jobs = [await create(client, namespace, manifest) for manifest in manifests]
    watched = [Watched(client, job) for job in jobs]
    while not await _watch(watched):
        match ask():
            case "d":
                await _delete(client, jobs)
                return INTERRUPTED
            case "c":
                continue
            case _:
                print(f"left running; `edl describe {jobs[0].name}` says how it fares")
                return INTERRUPTED
    return _ended([one.last.job for one in watched])


async def _ensure_namespaces(client: "Client", manifests: Sequence[Mapping[str, Any]]) -> None:
    """On one's own machine nobody else would make the namespace that a manifest names."""
    from edl.kube.errors import ApiError
    from edl.kube.resource import Resource

    namespaces = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    for name in sorted({manifest["metadata"].get("namespace") or "default" for manifest in manifests}):
        try:
            await client.create(
                namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, namespace=None
            )
        except ApiError as error:
            if not error.is_already_exists:
                raise


async def _watch(watched: Sequence[Watched]) -> bool:
    """Whether all have ended; False: somebody pressed Ctrl-C."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    screen = open_screen()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await follow(watched, screen, stop)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        screen.close()
    return not stop.is_set()


def ask() -> str:
    if not sys.stdin.isatty():
        return ""
    print(QUESTION, end="", flush=True)  # input() would write it to stderr where that goes elsewhere
    try:
        return input().strip().lower()[:1]
    except (EOFError, KeyboardInterrupt):
        print()
        return ""


async def _delete(client: "Client", jobs: Sequence[Summary]) -> None:
    for job in jobs:
        await client.delete(resource_of(job.kind), job.name, namespace=job.namespace, uid=job.uid)
        print(f"{job.label} deleted; its pods and services follow")


def _ended(jobs: Sequence[Summary]) -> int:
    failed = [job for job in jobs if job.phase.lower() == "failed"]
    for job in failed:
        print(f"edl: {job.label} failed: {cause_of(job) or job.reason}", file=sys.stderr)
        print(f"edl: `edl describe {job.name}` and `edl logs {job.name}` say more", file=sys.stderr)
    return 1 if failed else 0
