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

from edl.cli.commands.jobs.describe import cause_of
from edl.cli.commands.jobs.script_job import EXISTS, create_script_job
from edl.cli.commands.jobs.submit import create, valid_manifests
from edl.cli.connect.cluster import add_cluster_options, home, is_local, with_cluster
from edl.cli.connect.jobs import JobSummary, resource_of
from edl.cli.errors import CommandError
from edl.cli.input import script
from edl.cli.main import INTERRUPTED
from edl.cli.output.follow import WatchedJob, follow
from edl.cli.output.job_output import CHOICES, JobOutput
from edl.cli.output.live import open_screen
from edl.cli.output.terminal import harmless
from edl.jobs.admission import check

if TYPE_CHECKING:
    from edl.cli.input.code import Code
    from edl.kube.rest.client import Client

SUMMARY = "submit jobs and watch them until they end"
ORDER = 40

TAKES_REST = True
TERMINATED = 128 + signal.SIGTERM
QUESTION = "leave the jobs running (Enter), delete them (d), or go on watching (c)? "


def arguments(parser: argparse.ArgumentParser) -> None:
    files = "a Python script, or files and directories of manifests, - for stdin"
    parser.add_argument("files", metavar="FILE", nargs="*", help=files)
    parser.add_argument("-f", "--filename", dest="more", action="append", default=[], metavar="FILE", help="the same")
    parser.add_argument("-d", "--detach", action="store_true", help="submit and leave; `edl attach NAME` shows them")
    parser.add_argument(
        "--if-exists",
        choices=EXISTS,
        help="of a script whose name a job has: replace it, number the new one, or fail (default: replace one of the "
        "same script that has ended, else number)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be submitted, and do nothing")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="of --dry-run (default yaml)")
    parser.add_argument(
        "--logs", choices=CHOICES, default="rank-0", help="whose log lines are shown (default rank-0: of rank 0)"
    )
    parser.add_argument("--no-log-progress", action="store_true", help="look for no step or loss in log lines")
    script.arguments(parser)
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    options.files = [*options.files, *options.more]
    own = is_local(options) or not (options.kubeconfig or os.environ.get("KUBECONFIG"))
    manifests = _manifests(options, own)
    if options.dry_run:
        return _show(manifests, options.output)
    code = _code(options, own)
    if own:
        ensure_up()
    return with_cluster(lambda client, namespace: _run(client, namespace, manifests, own, options, code), options)


def _code(options: argparse.Namespace, own: bool) -> "Code | None":
    """What is shipped, packed before anything is made."""
    top = script.shipped(options, here=own) if script.is_script(options) else None
    if top is None:
        return None
    from edl.cli.input.code import pack

    code = pack(top)
    print(f"ships {code.files} files of {top}, {max(1, len(code.archive) // 1024)} KiB packed", flush=True)
    for name in code.left_out:
        print(f"left out: {harmless(name)}, which leads out of the directory or is no file", flush=True)
    return code


def _manifests(options: argparse.Namespace, own: bool) -> list[dict[str, Any]]:
    if not script.is_script(options):
        script.refuse_options(options)
        if not options.files:
            raise CommandError("what to run? A script, -m MODULE, or files of manifests")
        return valid_manifests(options.files)
    made = script.manifest(options, here=own)
    problems = [problem for problem in check(made).problems if problem.severity == "error"]
    if problems:
        raise CommandError("; ".join(str(problem) for problem in problems))
    script.check_present(options, here=own)
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
    from edl.cli.local.size import last_size
    from edl.cli.local.up import UpError, UpSettings, start
    from edl.embedded.home import HomeInUseError

    if sys.platform != "linux":
        raise CommandError("process nodes need Linux; on another system use a Kubernetes cluster with --kubeconfig")
    try:
        running = start(UpSettings(home=home(), size=last_size(home()), working_dir=os.getcwd()))
    except HomeInUseError:
        return
    except UpError as error:
        raise CommandError(str(error)) from None
    print(f"started a cluster on this machine at {running.url}; `edl down` stops it", flush=True)


async def _run(
    client: "Client",
    namespace: str,
    manifests: Sequence[dict[str, Any]],
    own: bool,
    options: argparse.Namespace,
    code: "Code | None",
) -> int:
    if own:
        await _ensure_namespaces(client, manifests)
    if script.is_script(options):
        jobs = [await create_script_job(client, namespace, manifests[0], options.if_exists, code)]
    else:
        jobs = [await create(client, namespace, manifest) for manifest in manifests]
    if options.detach:
        for job in jobs:
            print(f"{job.label} submitted; `edl attach {job.name}{job.where}` shows it")
        return 0
    read = not options.no_log_progress
    outputs = [JobOutput(client, job, choice=options.logs, read_progress=read) for job in jobs]
    watched = [WatchedJob(client, job, output) for job, output in zip(jobs, outputs, strict=True)]
    try:
        return await follow_to_the_end(client, watched)
    finally:
        for one in watched:
            await one.close()


async def follow_to_the_end(client: "Client", watched: Sequence[WatchedJob]) -> int:
    """To the end, or until the user leaves. Only who pressed Ctrl-C is there to be asked: SIGTERM comes when a terminal
    or a machine goes."""
    while (left_by := await _watch(watched)) is not None:
        jobs = [one.last.job for one in watched]
        match ask() if left_by == signal.SIGINT else "":
            case "d":
                await _delete(client, jobs)
                return INTERRUPTED
            case "c":
                continue
            case _:
                name = f"{jobs[0].name}{jobs[0].where}"
                print(f"left running; `edl attach {name}` shows it again, `edl describe {name}` says how it fares")
                return INTERRUPTED if left_by == signal.SIGINT else TERMINATED
    return _ended([one.last.job for one in watched])


async def _ensure_namespaces(client: "Client", manifests: Sequence[Mapping[str, Any]]) -> None:
    """On the local cluster there is no administrator who would create the namespace that a manifest names."""
    from edl.kube.rest.errors import ApiError
    from edl.kube.rest.resource import Resource

    namespaces = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    for name in sorted({manifest["metadata"].get("namespace") or "default" for manifest in manifests}):
        try:
            await client.create(
                namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, namespace=None
            )
        except ApiError as error:
            if not error.is_already_exists:
                raise


async def _watch(watched: Sequence[WatchedJob]) -> signal.Signals | None:
    """None if all have ended, else the signal that ended it."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    came: list[signal.Signals] = []
    screen = open_screen()

    def end(number: signal.Signals) -> None:
        came.append(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    try:
        await follow(watched, screen, stop)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        screen.close()
    return came[-1] if came else None


def ask() -> str:
    if not sys.stdin.isatty():
        return ""
    try:  # Ctrl-C may come as soon as the question is there to be read
        print(QUESTION, end="", flush=True)  # input() would write it to stderr where that goes elsewhere
        return input().strip().lower()[:1]
    except (EOFError, KeyboardInterrupt):
        print()
        return ""


async def _delete(client: "Client", jobs: Sequence[JobSummary]) -> None:
    for job in jobs:
        await client.delete(resource_of(job.kind), job.name, namespace=job.namespace, uid=job.uid)
        print(f"{job.label} deleted; its pods and services follow")


def _ended(jobs: Sequence[JobSummary]) -> int:
    failed = [job for job in jobs if job.phase.lower() == "failed"]
    for job in failed:
        name = f"{job.name}{job.where}"
        print(f"edl: {job.label} failed: {harmless(cause_of(job) or job.reason)}", file=sys.stderr)
        print(f"edl: `edl describe {name}` and `edl logs {name}` say more", file=sys.stderr)
    return 1 if failed else 0
