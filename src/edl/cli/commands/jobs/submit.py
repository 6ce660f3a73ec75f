"""Check manifests, then create the jobs in them. Nothing is created unless every manifest is valid."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edl.cli.commands.jobs.validate import inspected
from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, resource_of, summarize
from edl.cli.errors import CommandError
from edl.cli.input.manifests import load
from edl.cli.output.terminal import harmless
from edl.jobs.registry import BY_API_VERSION

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "check manifests, then create the jobs in them"
ORDER = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="files or directories of manifests, - for stdin")
    parser.add_argument("-f", "--filename", dest="more", action="append", default=[], metavar="FILE", help="the same")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    files = [*options.files, *options.more]
    if not files:
        raise CommandError("what to submit? Name files of manifests")
    manifests = valid_manifests(files)
    return with_cluster(lambda client, namespace: _submit(client, namespace, manifests), options)


def valid_manifests(files: Sequence[str]) -> list[dict[str, Any]]:
    report = list(inspected(load(files)))
    findings = [finding for _, found in report for finding in found]
    for finding in findings:
        print(harmless(str(finding)), file=sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        raise CommandError(
            f"{errors} {'error' if errors == 1 else 'errors'} in the manifests above; nothing was submitted"
        )
    return [manifest.value for manifest, _ in report]


async def _submit(client: "Client", namespace: str, manifests: list[dict[str, Any]]) -> int:
    for manifest in manifests:
        job = await create(client, namespace, manifest)
        hint = f"`edl describe {job.name}{job.where}` says how it fares"
        print(f"{job.label} submitted to namespace {job.namespace}; {hint}")
    return 0


async def create(client: "Client", namespace: str, manifest: dict[str, Any]) -> JobSummary:
    from edl.kube.rest.errors import ApiError

    kind = BY_API_VERSION[manifest["apiVersion"], manifest["kind"]]
    where = manifest["metadata"].get("namespace") or namespace
    try:
        made = await client.create(resource_of(kind), manifest, namespace=where)
    except ApiError as error:
        if not error.is_already_exists:
            raise
        name = manifest["metadata"].get("name")
        raise CommandError(
            f"{kind.singular}/{name} exists in namespace {where}; "
            f"`edl delete {name} -n {where}` first, or change it with kubectl apply"
        ) from error
    return summarize(kind, made)
