"""Print what a new cluster needs to go on: jobs that have not ended, and the installation's key.

`edl backup > jobs.yaml`; on the new cluster `kubectl apply -f jobs.yaml`, then `edl install`. Jobs begin again from
what their checkpoints hold. The key is a secret: so is what this prints, unless --no-key leaves it out.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import with_cluster
from edl.operator.settings import NAMESPACE

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "print jobs and key, for a new cluster"
ORDER = 195
Data = dict[str, Any]

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", metavar="NAMESPACE", default=NAMESPACE, help="the operator's (%(default)s)")
    parser.add_argument("--no-key", action="store_true", help="leave the installation's key out")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.set_defaults(namespace=None)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, _: _backup(client, options), options)


async def _backup(client: "Client", options: argparse.Namespace) -> int:
    from edl.install.text import yaml_text

    jobs = await _jobs(client)
    places = sorted({job["metadata"]["namespace"] for job in jobs} - {"default"})
    if not options.no_key:
        key = await _key(client, options.system)
        places, jobs = sorted({*places, options.system}), [*key, *jobs]
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}} for place in places]
    sys.stdout.write(yaml_text([*made, *jobs]))
    return 0


async def _jobs(client: "Client") -> list[Data]:
    """Those that have ended would begin anew. What another object controls is made anew by it."""
    from edl.jobs.core.phase import FINAL
    from edl.jobs.registry import KINDS
    from edl.kube.rest.errors import ApiError
    from edl.operator.resources import resource_of

    found = []
    for kind in KINDS:
        resource = resource_of(kind)
        try:
            items = (await client.list(resource)).items
        except ApiError as error:
            if error.is_not_found:
                continue
            raise
        lasting = [one for one in items if not one["metadata"].get("ownerReferences")]
        unfinished = [one for one in lasting if str((one.get("status") or {}).get("phase")).lower() not in FINAL]
        found += [_clean({"apiVersion": resource.api_version, "kind": resource.kind, **one}) for one in unfinished]
    return found


async def _key(client: "Client", system: str) -> list[Data]:
    from edl.kube.rest.errors import ApiError
    from edl.operator.resources import SECRETS
    from edl.operator.settings import SECRET

    try:
        secret = await client.get(SECRETS, SECRET, namespace=system)
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
    return [_clean({"apiVersion": "v1", "kind": "Secret", **secret})]


def _clean(body: Data) -> Data:
    """What its author wrote, without what the cluster added."""
    metadata = {key: body["metadata"][key] for key in ("name", "namespace", "labels") if body["metadata"].get(key)}
    annotations = {key: text for key, text in (body["metadata"].get("annotations") or {}).items() if key != _APPLIED}
    if annotations:
        metadata["annotations"] = annotations
    kept: Data = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata}
    return kept | {key: body[key] for key in ("spec", "type", "data") if key in body}
