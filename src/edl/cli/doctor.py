"""Say what is wrong with a cluster, or with one job of it, and what to do about it.

Exit code 0: nothing is wrong; 1: something is; 3: the cluster does not answer.
"""

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .connect import add_cluster_options, home, with_cluster
from .jobs import find_job
from .pods import job_pods

if TYPE_CHECKING:
    from edl.doctor.finding import Finding
    from edl.kube.client import Client

WORDS = {"ok": "ok", "note": "note", "wrong": "WRONG"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="NAME", help="a job, or KIND/NAME (default: the cluster as a whole)")
    parser.add_argument("--system", metavar="NAMESPACE", default="edl-system", help="the operator's (%(default)s)")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.job is None:
        return with_cluster(lambda client, _: _cluster(client, options), options)
    return with_cluster(lambda client, namespace: _job(client, namespace, options.job), options)


async def _cluster(client: "Client", options: argparse.Namespace) -> int:
    from edl.doctor.cluster import examine_cluster
    from edl.doctor.reading import read_cluster

    found = examine_cluster(await read_cluster(client, options.system), time.time())
    if options.kubeconfig is None and (home() / "kubeconfig").exists():
        found.append(_sandbox())
    return _print(found)


def _sandbox() -> "Finding":
    """How far process pods of `edl up` get file systems of their own on this machine."""
    from edl.doctor.finding import note, ok
    from edl.embedded.node.supervisor.sandbox import best_mode

    mode, why = best_mode()
    if mode == "none":
        words = f"pods see mount paths below their own directory, not where the manifest says ({why})"
        return note(
            "this machine", words, "allow unprivileged user namespaces, or write paths relative to $EDL_DATA_DIR"
        )
    return ok("this machine", f"pods see their mounts where the manifest says (mode {mode})")


async def _job(client: "Client", namespace: str, wanted: str) -> int:
    from edl.doctor.job import examine_job
    from edl.doctor.reading import Reader
    from edl.operator.resources import NODES

    job = await find_job(client, namespace, wanted)
    pods = await job_pods(client, job.kind, namespace, job.name)
    nodes = await Reader(client).all(NODES)
    where = f" -n {namespace}" if namespace != "default" else ""
    return _print(examine_job(dict(job.raw), [dict(pod) for pod in pods], nodes, where))


def _print(found: Sequence["Finding"]) -> int:
    width = max(len(one.about) for one in found)
    for one in found:
        print(f"{WORDS[one.level]:<6}{one.about:<{width}}  {one.words}")
        if one.fix:
            print(f"{'':<6}{'':<{width}}  -> {one.fix}")
    return 1 if any(one.level == "wrong" for one in found) else 0
