"""Print what a new cluster needs to go on: jobs that have not ended, their state, and the installation's key.

`edl backup > jobs.yaml`; on the new cluster `kubectl apply -f jobs.yaml`, then `edl install`. Jobs go on from what
their checkpoints hold. The key is a secret: so is what this prints, unless --no-key leaves it out. Then the
key must be there before the jobs are, or their state counts for nothing.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from edl.api.annotations import RESTORED_FROM
from edl.api.labels import LABEL_UID
from edl.cli.connect.cluster import with_cluster
from edl.operator.settings import NAMESPACE

if TYPE_CHECKING:
    from edl.kube.rest.client import Client
    from edl.operator.credentials.identity import Identity

SUMMARY = "print jobs, their state and the key, for a new cluster"
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
    from edl.doctor.reading import read_identity_of
    from edl.install.text import yaml_text

    jobs, identity = await _unfinished(client), await read_identity_of(client, options.system)
    if identity is None and jobs:
        print("edl: the state of TrainingJobs is left out: there is no key to seal it with", file=sys.stderr)
    printed = []
    for job in jobs:
        state = await _state(client, job, identity) if identity is not None else None
        printed += [_clean(job)] if state is None else [state, _restored(_clean(job), state)]
    places = {body["metadata"]["namespace"] for body in printed} - {"default"}
    if not options.no_key:
        places, printed = {*places, options.system}, [*await _key(client, options.system), *printed]
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}} for place in sorted(places)]
    sys.stdout.write(yaml_text([*made, *printed]))
    return 0


async def _unfinished(client: "Client") -> list[Data]:
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
        found += [{"apiVersion": resource.api_version, "kind": resource.kind, **one} for one in unfinished]
    return found


async def _state(client: "Client", job: Data, identity: "Identity") -> Data | None:
    """What a job keeps at the job service, if its kind has it restored; others' scripts know their checkpoints."""
    from edl.jobs.registry import JOB_KINDS
    from edl.operator.job_service.configmap_store import CONFIGMAPS
    from edl.operator.job_service.restored_state import backed_up, state_name

    name, namespace, uid = (job["metadata"][key] for key in ("name", "namespace", "uid"))
    group = job["apiVersion"].partition("/")[0]
    kind = next((one for one in JOB_KINDS if (one.group, one.name) == (group, job["kind"])), None)
    if kind is None or not kind.is_restored:
        return None
    found = await client.find(CONFIGMAPS, state_name(name, kind.tag), namespace=namespace)
    if found is None or uid not in [one["uid"] for one in found["metadata"].get("ownerReferences") or ()]:
        return None
    former = (job["metadata"].get("annotations") or {}).get(RESTORED_FROM) or uid  # its checkpoints are there
    return backed_up(found, job=name, uid=former, key=identity.state_keys(former)[0])


def _restored(job: Data, state: Data) -> Data:
    metadata = job["metadata"]
    notes = {**(metadata.get("annotations") or {}), RESTORED_FROM: state["metadata"]["labels"][LABEL_UID]}
    return {**job, "metadata": {**metadata, "annotations": notes}}


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
