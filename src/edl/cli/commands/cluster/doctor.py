"""Say what is wrong with a cluster, or with one job of it, and what to do about it.

Exit code 0: nothing is wrong; 1: something is (with --fail-on note: or is worth knowing); 3: the cluster does not
answer. --bundle writes an archive for a report: versions, findings, objects, Events, logs, plan and metrics, without
Secrets and values of environments.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import add_cluster_options, home, with_cluster
from edl.cli.connect.jobs import find_job
from edl.cli.connect.pods import job_pods
from edl.cli.errors import CommandError
from edl.cli.output.terminal import harmless

if TYPE_CHECKING:
    from edl.doctor.finding import Finding
    from edl.kube.rest.client import Client

SUMMARY = "say what is wrong with a cluster or a job, and what to do"
ORDER = 120

WORDS = {"ok": "ok", "note": "note", "wrong": "WRONG"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="NAME", help="a job, or KIND/NAME (default: the cluster as a whole)")
    parser.add_argument("--system", metavar="NAMESPACE", default="edl-system", help="the operator's (%(default)s)")
    parser.add_argument("--bundle", metavar="FILE.tar.gz", help="write what a report needs to this file, too")
    parser.add_argument(
        "--fail-on",
        choices=("wrong", "note"),
        default="wrong",
        help="severity from which it exits with 1 (%(default)s)",
    )
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.job is None:
        return with_cluster(lambda client, _: _cluster(client, options), options)
    return with_cluster(lambda client, namespace: _job(client, namespace, options), options)


async def _cluster(client: "Client", options: argparse.Namespace) -> int:
    from edl.doctor.cluster import examine_cluster
    from edl.doctor.reading import read_cluster

    found = examine_cluster(await read_cluster(client, options.system), time.time())
    if options.kubeconfig is None and (home() / "kubeconfig").exists():
        found.append(_sandbox())
    if options.bundle:
        await _bundle(client, options, found)
    return _print(found, options.fail_on)


async def _bundle(client: "Client", options: argparse.Namespace, found: Sequence["Finding"], job: Any = None) -> None:
    """`job`: the one that the report is about, if it is about one."""
    from edl.cli.commands.jobs.plan import as_table, cluster_objects
    from edl.cli.connect.bundle import Collector
    from edl.cli.connect.jobs import resource_of
    from edl.doctor.reading import read_identity_of
    from edl.kube.rest.errors import KubeError
    from edl.scheduler.plan import plan
    from edl.scheduler.snapshot.builder import build_snapshot

    identity = await read_identity_of(client, options.system)
    collector = Collector(client, options.system, proof=identity.metrics_token if identity is not None else "")
    collector.add("findings.txt", _lines(found))
    await collector.collect()
    if job is not None:
        await collector.collect_job(resource_of(job.kind), job.namespace, job.name)
    try:
        collector.add("plan.txt", as_table(plan(build_snapshot(await cluster_objects(client)), now=time.time())))
    except KubeError as error:
        collector.add("plan.txt", f"not made: {error}")
    _write(options.bundle, collector.archive())
    print(f"written: {options.bundle}", file=sys.stderr)


def _write(path: str, data: bytes) -> None:
    """Only its owner may read it: it names jobs of every namespace."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _sandbox() -> "Finding":
    """How far process pods of `edl up` get file systems of their own on this machine."""
    from edl.doctor.finding import note, ok
    from edl.embedded.node.supervisor.sandbox import best_mode

    mode, why = best_mode()
    if mode == "none":
        message = f"pods see mount paths below their own directory, not where the manifest says ({why})"
        return note(
            "this machine", message, "allow unprivileged user namespaces, or write paths relative to $EDL_DATA_DIR"
        )
    return ok("this machine", f"pods see their mounts where the manifest says (mode {mode})")


async def _job(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    from edl.doctor.job import examine_job
    from edl.doctor.reading import Reader, read_leader
    from edl.operator.resources import NODES

    job = await find_job(client, namespace, options.job)
    pods = await job_pods(client, job.kind, namespace, job.name, uid=job.uid)
    nodes = await Reader(client).all(NODES)
    leader = await read_leader(client, options.system, time.time())
    flags = f" -n {namespace}" if namespace != "default" else ""
    found = examine_job(dict(job.raw), [dict(pod) for pod in pods], nodes, flags, leader=leader)
    if options.bundle:
        await _bundle(client, options, found, job)
    return _print(found, options.fail_on)


def _lines(found: Sequence["Finding"]) -> str:
    width, lines = max(len(one.about) for one in found), []
    for one in found:
        lines.append(f"{WORDS[one.level]:<6}{one.about:<{width}}  {harmless(one.message)}\n")
        if one.fix:
            lines.append(f"{'':<6}{'':<{width}}  -> {harmless(one.fix)}\n")
    return "".join(lines)


def _print(found: Sequence["Finding"], fail_on: str = "wrong") -> int:
    sys.stdout.write(_lines(found))
    failing = ("wrong",) if fail_on == "wrong" else ("wrong", "note")
    return 1 if any(one.level in failing for one in found) else 0
