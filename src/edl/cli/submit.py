"""Check manifests, then create the jobs in them. Nothing is created unless every manifest is valid."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edl.api.kinds import BY_API_VERSION

from .connect import add_cluster_options, with_cluster
from .jobs import Summary, resource_of, summarize
from .main import CommandError
from .manifests import load
from .validate import inspected

if TYPE_CHECKING:
    from edl.kube.client import Client


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="files or directories of manifests, - for stdin")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    manifests = valid_manifests(options.files)
    return with_cluster(lambda client, namespace: _submit(client, namespace, manifests), options)


def valid_manifests(files: Sequence[str]) -> list[dict[str, Any]]:
    report = list(inspected(load(files)))
    findings = [finding for _, found in report for finding in found]
    for finding in findings:
        print(finding, file=sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        raise CommandError(
            f"{errors} {'error' if errors == 1 else 'errors'} in the manifests above; nothing was submitted"
        )
    return [manifest.value for manifest, _ in report]


async def _submit(client: "Client", namespace: str, manifests: list[dict[str, Any]]) -> int:
    for manifest in manifests:
        job = await create(client, namespace, manifest)
        print(f"{job.label} submitted to namespace {job.namespace}; `edl describe {job.name}` says how it fares")
    return 0


async def create(client: "Client", namespace: str, manifest: dict[str, Any]) -> Summary:
    from edl.kube.errors import ApiError

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
            f"`edl delete {name}` first, or change it with kubectl apply"
        ) from error
    return summarize(kind, made)
