"""Columns of the Table of each kind. `cells.py` and `pod_cells.py` compute their values."""

from typing import Any

from edl.embedded.server.registry import Resource
from edl.embedded.server.tables import cells, pod_cells
from edl.embedded.server.tables.cells import NONE
from edl.embedded.server.tables.table import AGE, NAME, PLAIN, Column, Columns, FixedColumns, custom_columns
from edl.embedded.server.verbs.call import Object


def columns_for(resource: Resource) -> Columns:
    if resource.custom is not None:
        return custom_columns(resource.custom.columns)
    return _COLUMNS.get(resource.storage, PLAIN)


def _wide(name: str, cell: Any) -> Column:
    return Column(name, cell, priority=1)


def _path(*names: str, default: Any = NONE) -> Any:
    def cell(obj: Object) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value in (None, "") else value

    return cell


def _info(field: str, default: str) -> Any:
    return _path("status", "nodeInfo", field, default=default)


_TEMPLATE = [_wide("Containers", cells.template("name")), _wide("Images", cells.template("image"))]
_BINDING = [
    NAME,
    Column("Role", cells.role),
    AGE,
    _wide("Users", cells.subjects("User")),
    _wide("Groups", cells.subjects("Group")),
    _wide("ServiceAccounts", cells.subjects("ServiceAccount")),
]
_COLUMNS: dict[str, FixedColumns] = {
    storage: FixedColumns(columns)
    for storage, columns in {
        "/pods": [
            NAME,
            Column("Ready", pod_cells.ready),
            Column("Status", pod_cells.status),
            Column("Restarts", pod_cells.restarts),
            AGE,
            _wide("IP", cells.pod_ip),
            _wide("Node", _path("spec", "nodeName")),
            _wide("Nominated Node", _path("status", "nominatedNodeName")),
            _wide("Readiness Gates", cells.gates),
        ],
        "/nodes": [
            NAME,
            Column("Status", cells.node_status),
            Column("Roles", cells.roles),
            AGE,
            Column("Version", _info("kubeletVersion", "")),
            _wide("Internal-IP", cells.address("InternalIP")),
            _wide("External-IP", cells.address("ExternalIP")),
            _wide("OS-Image", _info("osImage", "<unknown>")),
            _wide("Kernel-Version", _info("kernelVersion", "<unknown>")),
            _wide("Container-Runtime", _info("containerRuntimeVersion", "<unknown>")),
        ],
        "/namespaces": [NAME, Column("Status", _path("status", "phase", default="")), AGE],
        "/services": [
            NAME,
            Column("Type", _path("spec", "type")),
            Column("Cluster-IP", _path("spec", "clusterIP")),
            Column("External-IP", cells.external),
            Column("Port(s)", cells.service_ports),
            AGE,
            _wide("Selector", cells.service_selector),
        ],
        "/configmaps": [NAME, Column("Data", cells.entries("data", "binaryData")), AGE],
        "/secrets": [NAME, Column("Type", _path("type", default="")), Column("Data", cells.entries("data")), AGE],
        "/serviceaccounts": [NAME, AGE],
        "/events": [
            Column("Last Seen", cells.last_seen),
            Column("Type", _path("type", default="")),
            Column("Reason", _path("reason", default="")),
            Column("Object", cells.about),
            _wide("Subobject", lambda e: (cells.either(e, "involvedObject", "regarding") or {}).get("fieldPath", "")),
            _wide("Source", cells.event_source),
            Column("Message", lambda e: (cells.either(e, "message", "note") or "").strip()),
            _wide("First Seen", cells.first_seen),
            _wide("Count", cells.event_count),
            Column("Name", NAME.cell, priority=1, format="name"),
        ],
        "/resourcequotas": [
            NAME,
            Column("Request", cells.quota(limits=False)),
            Column("Limit", cells.quota(limits=True)),
            AGE,
        ],
        "apps/deployments": [
            NAME,
            Column("Ready", cells.ready_of_wanted),
            Column("Up-to-date", lambda obj: cells.of(obj, "updatedReplicas")),
            Column("Available", lambda obj: cells.of(obj, "availableReplicas")),
            AGE,
            *_TEMPLATE,
            _wide("Selector", cells.selector),
        ],
        "apps/replicasets": [
            NAME,
            Column("Desired", lambda obj: obj["spec"].get("replicas", 0), type="integer"),
            Column("Current", lambda obj: cells.of(obj, "replicas"), type="integer"),
            Column("Ready", lambda obj: cells.of(obj, "readyReplicas"), type="integer"),
            AGE,
            *_TEMPLATE,
            _wide("Selector", cells.selector),
        ],
        "apps/statefulsets": [NAME, Column("Ready", cells.ready_of_wanted), AGE, *_TEMPLATE],
        "batch/jobs": [
            NAME,
            Column("Status", cells.job_status),
            Column("Completions", cells.completions),
            Column("Duration", cells.duration),
            AGE,
            *_TEMPLATE,
            _wide("Selector", cells.selector),
        ],
        "coordination.k8s.io/leases": [NAME, Column("Holder", _path("spec", "holderIdentity", default="")), AGE],
        "discovery.k8s.io/endpointslices": [
            NAME,
            Column("AddressType", _path("addressType", default="")),
            Column("Ports", cells.slice_ports),
            Column("Endpoints", cells.slice_addresses),
            AGE,
        ],
        "scheduling.k8s.io/priorityclasses": [
            NAME,
            Column("Value", lambda obj: obj.get("value", 0), type="integer"),
            Column("Global-Default", lambda obj: bool(obj.get("globalDefault")), type="boolean"),
            AGE,
            Column("PreemptionPolicy", _path("preemptionPolicy", default="")),
        ],
        "rbac.authorization.k8s.io/rolebindings": _BINDING,
        "rbac.authorization.k8s.io/clusterrolebindings": _BINDING,
    }.items()
}
