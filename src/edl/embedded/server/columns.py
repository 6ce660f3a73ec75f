"""Which columns each kind shows in a Table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from edl.embedded.server import podcells
from edl.embedded.server.ages import human, since
from edl.embedded.server.call import Object
from edl.embedded.server.kinds.selectors import render
from edl.embedded.server.registry import Resource
from edl.embedded.server.table import AGE, NAME, PLAIN, Column, Columns, FixedColumns, custom_columns

_NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


def columns_for(resource: Resource) -> Columns:
    if resource.custom is not None:
        return custom_columns(resource.custom.columns)
    return _COLUMNS.get(resource.storage, PLAIN)


def _wide(name: str, cell: Any) -> Column:
    return Column(name, cell, priority=1)


def _path(*names: str, default: Any = _NONE) -> Any:
    def cell(obj: Object) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value in (None, "") else value

    return cell


# -- pods and their templates
# -------------------------------------------------------------------------------------------


def _gates(pod: Object) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return _NONE
    holding = {c["type"] for c in pod["status"].get("conditions") or () if c["status"] == "True"}
    return f"{sum(gate['conditionType'] in holding for gate in gates)}/{len(gates)}"


def _pod_ip(pod: Object) -> str:
    addresses = pod["status"].get("podIPs") or ()
    return str(addresses[0]["ip"]) if addresses else str(pod["status"].get("podIP") or _NONE)


def _template(field: str) -> Any:
    def cell(obj: Object) -> str:
        return ",".join(c.get(field, "") for c in obj["spec"]["template"]["spec"].get("containers") or ())

    return cell


_TEMPLATE = [_wide("Containers", _template("name")), _wide("Images", _template("image"))]


def _selector(obj: Object) -> str:
    return render(obj["spec"].get("selector") or {}) or _NONE


def _of(obj: Object, field: str) -> int:
    return int(obj["status"].get(field) or 0)


def _ready_of_wanted(obj: Object) -> str:
    return f"{_of(obj, 'readyReplicas')}/{obj['spec'].get('replicas', 0)}"


# -- jobs
# ---------------------------------------------------------------------------------------------------------------


def _job_status(job: Object) -> str:
    holding = {c["type"]: c for c in job["status"].get("conditions") or () if c["status"] == "True"}
    if "Complete" in holding:
        return "Complete"
    if "Failed" in holding:
        return "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in holding:
            return kind
    return "Running"


def _completions(job: Object) -> str:
    done, wanted = _of(job, "succeeded"), job["spec"].get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = job["spec"].get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Object) -> str:
    start, end = job["status"].get("startTime"), job["status"].get("completionTime")
    if not start:
        return ""
    if not end:
        return since(start)
    return human(datetime.fromisoformat(end).timestamp() - datetime.fromisoformat(start).timestamp())


# -- nodes
# --------------------------------------------------------------------------------------------------------------


def _node_status(node: Object) -> str:
    ready = next((c for c in node["status"].get("conditions") or () if c["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if node["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE)
    return ",".join(roles) or _NONE


def _address(kind: str) -> Any:
    def cell(node: Object) -> str:
        found = [a["address"] for a in node["status"].get("addresses") or () if a["type"] == kind]
        return str(found[0]) if found else _NONE

    return cell


def _info(field: str, default: str) -> Any:
    return _path("status", "nodeInfo", field, default=default)


# -- services and the rest
# ----------------------------------------------------------------------------------------------


def _service_ports(service: Object) -> str:
    shown = []
    for port in service["spec"].get("ports") or ():
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or _NONE


def _external(service: Object) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        return ",".join(spec.get("externalIPs") or ()) or "<pending>"
    return ",".join(spec.get("externalIPs") or ()) or _NONE


def _service_selector(service: Object) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((service["spec"].get("selector") or {}).items())) or _NONE


def _quota(*, limits: bool) -> Any:
    def cell(quota: Object) -> str:
        hard, used = quota["status"].get("hard") or {}, quota["status"].get("used") or {}
        names = sorted(name for name in hard if name.startswith("limits.") is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _slice_ports(endpoints: Object) -> str:
    return ",".join(str(port.get("port", "<unset>")) for port in endpoints.get("ports") or ()) or "<unset>"


def _slice_addresses(endpoints: Object) -> str:
    found = [address for entry in endpoints.get("endpoints") or () for address in entry.get("addresses") or ()]
    if not found:
        return "<unset>"
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more


def _subjects(kind: str) -> Any:
    def cell(binding: Object) -> str:
        found = [s for s in binding.get("subjects") or () if s.get("kind") == kind]
        return ", ".join(f"{s['namespace']}/{s['name']}" if kind == "ServiceAccount" else s["name"] for s in found)

    return cell


def _role(binding: Object) -> str:
    return f"{binding['roleRef'].get('kind', '')}/{binding['roleRef'].get('name', '')}"


def _entries(*fields: str) -> Any:
    return lambda obj: sum(len(obj.get(field) or ()) for field in fields)


# -- events
# -------------------------------------------------------------------------------------------------------------


def _event(event: Object, core: str, new: str) -> Any:
    return event.get(core) if event.get(core) is not None else event.get(new)


def _about(event: Object) -> str:
    about = _event(event, "involvedObject", "regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _last_seen(event: Object) -> str:
    last = (event.get("series") or {}).get("lastObservedTime") or _event(
        event, "lastTimestamp", "deprecatedLastTimestamp"
    )
    return since(last or event.get("eventTime"))


def _first_seen(event: Object) -> str:
    return since(_event(event, "firstTimestamp", "deprecatedFirstTimestamp") or event.get("eventTime"))


def _event_source(event: Object) -> str:
    source = _event(event, "source", "deprecatedSource") or {}
    component = source.get("component") or _event(event, "reportingComponent", "reportingController") or ""
    place = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, place)))


def _event_count(event: Object) -> int:
    series = (event.get("series") or {}).get("count")
    return int(series or _event(event, "count", "deprecatedCount") or 1)


_BINDING = [
    NAME,
    Column("Role", _role),
    AGE,
    _wide("Users", _subjects("User")),
    _wide("Groups", _subjects("Group")),
    _wide("ServiceAccounts", _subjects("ServiceAccount")),
]
_COLUMNS: dict[str, FixedColumns] = {
    storage: FixedColumns(columns)
    for storage, columns in {
        "/pods": [
            NAME,
            Column("Ready", podcells.ready),
            Column("Status", podcells.status),
            Column("Restarts", podcells.restarts),
            AGE,
            _wide("IP", _pod_ip),
            _wide("Node", _path("spec", "nodeName")),
            _wide("Nominated Node", _path("status", "nominatedNodeName")),
            _wide("Readiness Gates", _gates),
        ],
        "/nodes": [
            NAME,
            Column("Status", _node_status),
            Column("Roles", _roles),
            AGE,
            Column("Version", _info("kubeletVersion", "")),
            _wide("Internal-IP", _address("InternalIP")),
            _wide("External-IP", _address("ExternalIP")),
            _wide("OS-Image", _info("osImage", "<unknown>")),
            _wide("Kernel-Version", _info("kernelVersion", "<unknown>")),
            _wide("Container-Runtime", _info("containerRuntimeVersion", "<unknown>")),
        ],
        "/namespaces": [NAME, Column("Status", _path("status", "phase", default="")), AGE],
        "/services": [
            NAME,
            Column("Type", _path("spec", "type")),
            Column("Cluster-IP", _path("spec", "clusterIP")),
            Column("External-IP", _external),
            Column("Port(s)", _service_ports),
            AGE,
            _wide("Selector", _service_selector),
        ],
        "/configmaps": [NAME, Column("Data", _entries("data", "binaryData")), AGE],
        "/secrets": [NAME, Column("Type", _path("type", default="")), Column("Data", _entries("data")), AGE],
        "/serviceaccounts": [NAME, AGE],
        "/events": [
            Column("Last Seen", _last_seen),
            Column("Type", _path("type", default="")),
            Column("Reason", _path("reason", default="")),
            Column("Object", _about),
            _wide("Subobject", lambda e: (_event(e, "involvedObject", "regarding") or {}).get("fieldPath", "")),
            _wide("Source", _event_source),
            Column("Message", lambda e: (_event(e, "message", "note") or "").strip()),
            _wide("First Seen", _first_seen),
            _wide("Count", _event_count),
            Column("Name", NAME.cell, priority=1, format="name"),
        ],
        "/resourcequotas": [
            NAME,
            Column("Request", _quota(limits=False)),
            Column("Limit", _quota(limits=True)),
            AGE,
        ],
        "apps/deployments": [
            NAME,
            Column("Ready", _ready_of_wanted),
            Column("Up-to-date", lambda obj: _of(obj, "updatedReplicas")),
            Column("Available", lambda obj: _of(obj, "availableReplicas")),
            AGE,
            *_TEMPLATE,
            _wide("Selector", _selector),
        ],
        "apps/replicasets": [
            NAME,
            Column("Desired", lambda obj: obj["spec"].get("replicas", 0), type="integer"),
            Column("Current", lambda obj: _of(obj, "replicas"), type="integer"),
            Column("Ready", lambda obj: _of(obj, "readyReplicas"), type="integer"),
            AGE,
            *_TEMPLATE,
            _wide("Selector", _selector),
        ],
        "apps/statefulsets": [NAME, Column("Ready", _ready_of_wanted), AGE, *_TEMPLATE],
        "batch/jobs": [
            NAME,
            Column("Status", _job_status),
            Column("Completions", _completions),
            Column("Duration", _duration),
            AGE,
            *_TEMPLATE,
            _wide("Selector", _selector),
        ],
        "coordination.k8s.io/leases": [NAME, Column("Holder", _path("spec", "holderIdentity", default="")), AGE],
        "discovery.k8s.io/endpointslices": [
            NAME,
            Column("AddressType", _path("addressType", default="")),
            Column("Ports", _slice_ports),
            Column("Endpoints", _slice_addresses),
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
