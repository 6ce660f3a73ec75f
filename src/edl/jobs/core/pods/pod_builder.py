"""Builds pods of any kind: a role's template with labels, environment, a host name and termination settings.

The template says what runs; everything here is what EDL adds to every pod, so that the pod is found, fenced, evicted
from a dead node in time, and leaves its last words behind.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from edl.api.job_view import Installation, JobView
from edl.api.labels import LABEL_INDEX, LABEL_JOB, LABEL_KIND, LABEL_ROLE, LABEL_UID, SEAL
from edl.jobs.core.children import Child, Owner, seal
from edl.jobs.core.pods.environment import CA_KEY, TOKEN_KEY, ServiceAccess, Variable, merged, secret_name, slot
from edl.jobs.core.pods.pod_set import NewPod
from edl.jobs.core.pods.privileges import unprivileged
from edl.jobs.core.pods.pull_secrets import fetched_with
from edl.jobs.core.pods.shared_environment import Shared, own_variables, with_shared
from edl.jobs.core.pods.slot_names import slot_name

Data = dict[str, Any]

DEAD_NODE_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
DATA_VOLUME = "data"
# kube-scheduler spreads pods that a Service selects, and that outweighs a wish for a node, unless they bring a
# constraint of their own. This one counts no pods, so it does nothing but that.
_NO_SPREADING = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}


class PodSettings(msgspec.Struct, frozen=True):
    """What an installation decides about pods. `node_loss_seconds`: how long a pod stays on a node that is not ready.

    `data_root`: a directory of the node in which every job has one of its own for its data (a single machine's way);
    empty leaves the job's data volume as it is.
    """

    installation: Installation = Installation()
    access: ServiceAccess = ServiceAccess()
    node_loss_seconds: int = 10
    data_root: str = ""
    resizes: bool = False
    """The API server can resize running pods (`pods/resize`)."""
    carries_runtime: bool = False
    """Images of users may lack EDL's package: an init container brings what their pods need of it. Not where pods are
    processes of a machine that has it."""


def labels(view: JobView, role: str) -> dict[str, str]:
    return {LABEL_JOB: view.name, LABEL_KIND: view.resource, LABEL_UID: view.uid, LABEL_ROLE: role}


def selector(view: JobView, role: str) -> dict[str, str]:
    """The uid alone would do; the role tells the job's parts apart."""
    return {LABEL_UID: view.uid, LABEL_ROLE: role}


def build_template(
    template: Mapping[str, Any],
    view: JobView,
    role: str,
    environment: Sequence[Variable],
    settings: PodSettings,
    *,
    restart_policy: str,
    more_labels: Mapping[str, str],
    shared: Shared | None = None,
) -> Data:
    """The template as it goes into a ReplicaSet, a StatefulSet or a Job. Nothing of the argument is changed.

    `shared` says what is not to be in the pod itself.
    """
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    metadata["labels"] = {**(metadata.get("labels") or {}), **more_labels, **labels(view, role)}
    first, *others = spec["containers"]
    container = _container(first, environment)
    spec["containers"] = [container if shared is None else with_shared(container, shared), *others]
    spec["restartPolicy"] = restart_policy
    spec["tolerations"] = _tolerations(spec.get("tolerations"), settings.node_loss_seconds)
    spec = fetched_with(unprivileged(spec, settings.installation.image), settings.installation)
    if settings.data_root and spec.get("volumes"):
        spec["volumes"] = [_own_directory(volume, view, settings.data_root) for volume in spec["volumes"]]
    return {"metadata": metadata, "spec": spec}


def slot_pod(
    template: Data,
    view: JobView,
    role: str,
    new: NewPod,
    owner: Owner,
    *,
    subdomain: str,
    environment: Sequence[Variable],
    shared: Shared | None = None,
) -> Data:
    """One pod of a slot. Its host name is the slot's, whichever pod fills it."""
    slot_labels = {**template["metadata"]["labels"], LABEL_INDEX: str(new.index)}
    metadata = dict(
        template["metadata"],
        name=new.name,
        namespace=view.namespace,
        labels=slot_labels,
        ownerReferences=[owner.reference()],
    )
    if owner.key:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), SEAL: seal(owner.key, "Pod", new.name)}
    spec = dict(template["spec"])
    first, *others = spec["containers"]
    own = [*slot(new.name, new.index, new.attempt), *environment]
    spec["containers"] = [dict(first, env=own_variables(merged(own, first.get("env")), shared)), *others]
    spec.setdefault("hostname", slot_name(view.name, role, new.index))
    if subdomain:
        spec.setdefault("subdomain", subdomain)
    if new.node:
        spec = towards(spec, (new.node,))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def towards(spec: Mapping[str, Any], nodes: Sequence[str]) -> Data:
    """The pod spec with a wish for the nodes of the plan; one that is to take two pods made from it comes twice.

    Preferred, not required: the plan may be a moment old, and kube-scheduler has the last word.
    """
    affinity = dict(spec.get("affinity") or {})
    by_node = dict(affinity.get("nodeAffinity") or {})
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    by_node[field] = [*(by_node.get(field) or ()), *(_wish(node) for node in nodes)]
    spreading = spec.get("topologySpreadConstraints") or [_NO_SPREADING]
    return {**spec, "affinity": {**affinity, "nodeAffinity": by_node}, "topologySpreadConstraints": spreading}


def headless_service(view: JobView, name: str, role: str, ports: Sequence[Data]) -> Data:
    """Names for pods, from the moment they exist: who waits for whom is not ours to say."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": view.namespace, "labels": labels(view, role)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(view, role),
            **({"ports": list(ports)} if ports else {}),
        },
    }


def token_secret(view: JobView, token: str, ca: str) -> Child:
    """The key to the job service, for pods that name it variable by variable."""
    return _secret(view, secret_name(view.name, view.tag), {TOKEN_KEY: token, CA_KEY: ca})


def shared_secret(view: JobView, shared: Shared) -> Child:
    child = _secret(view, shared.secret, shared.values)
    return Child(child.kind, {**child.body, "immutable": True})


def _secret(view: JobView, name: str, values: Mapping[str, str]) -> Child:
    """Made before any pod that needs it; never read back, so it is not compared either."""
    metadata = {"name": name, "namespace": view.namespace, "labels": labels(view, "secret")}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": dict(values)}
    return Child("Secret", body)


def _container(container: Mapping[str, Any], environment: Sequence[Variable]) -> Data:
    """Last words come from the log where the program leaves no message, so that nobody has to read logs for a cause."""
    return {
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
        "env": merged(list(environment), container.get("env")),
    }


def _tolerations(given: Sequence[Mapping[str, Any]] | None, seconds: int) -> list[Mapping[str, Any]]:
    """Kubernetes waits five minutes for a node that went silent. A trainer is not worth waiting for."""
    known = {toleration.get("key") for toleration in given or ()}
    added = (
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in DEAD_NODE_KEYS
        if key not in known and None not in known
    )
    return [*(given or ()), *added]


def _own_directory(volume: Mapping[str, Any], view: JobView, root: str) -> Mapping[str, Any]:
    if volume.get("name") != DATA_VOLUME or "emptyDir" not in volume:
        return volume
    path = f"{root}/{view.namespace}/{view.name}"
    return {"name": DATA_VOLUME, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _wish(node: str) -> Data:
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"weight": 100, "preference": {"matchFields": [named]}}
