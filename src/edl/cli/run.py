"""Submit jobs, or an elastic job of a script (`edl run train.py --min 1 --max 4 -- --epochs 3`), and watch them until
they end. Starts the cluster of this machine (`edl up`) if no other is chosen.

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

from edl.api.admission import check

from . import script
from .connect import add_cluster_options, home, with_cluster
from .describe import cause_of
from .follow import Watched, follow
from .jobs import Summary, resource_of
from .live import open_screen
from .main import INTERRUPTED, CommandError
from .submit import create, valid_manifests

if TYPE_CHECKING:
    from edl.kube.client import Client

TAKES_REST = True
QUESTION = "leave the jobs running (Enter), delete them (d), or go on watching (c)? "


def arguments(parser: argparse.ArgumentParser) -> None:
    files = "a Python script, or files and directories of manifests, - for stdin"
    parser.add_argument("files", metavar="FILE", nargs="+", help=files)
    parser.add_argument("--dry-run", action="store_true", help="print what would be submitted, and do nothing")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="of --dry-run (default yaml)")
    script.arguments(parser)
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    own = not options.kubeconfig and not os.environ.get("KUBECONFIG")
    manifests = _manifests(options, own)
    if options.dry_run:
        return _show(manifests, options.output)
    if own:
        ensure_up()
    return with_cluster(lambda client, namespace: _run(client, namespace, manifests, own), options)


def _manifests(options: argparse.Namespace, own: bool) -> list[dict[str, Any]]:
    if not script.is_script(options.files):
        script.refuse_options(options)
        return valid_manifests(options.files)
    made = script.manifest(options, here=own)
    problems = [problem for problem in check(made).problems if problem.severity == "error"]
    if problems:
        raise CommandError("; ".join(str(problem) for problem in problems))
    if own and not options.dry_run:
        script.check_launcher(options)
    return [made]


def _show(manifests: Sequence[dict[str, Any]], form: str) -> int:
    import json

    from edl.install.text import yaml_text

    if form == "json":
        items = manifests[0] if len(manifests) == 1 else {"apiVersion": "v1", "kind": "List", "items": manifests}
        print(json.dumps(items, indent=2))
    else:
        print(yaml_text(list(manifests)), end="")
    return 0


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
