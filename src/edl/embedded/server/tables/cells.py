"""Computed cells of Tables: values that kubectl prints and that are more than one field of an object."""

from typing import Any

from edl.api.kubernetes import timestamp
from edl.embedded.server.kinds.selectors import render
from edl.embedded.server.tables.ages import human, since
from edl.embedded.server.verbs.call import Object

NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"

# -- pods and their templates ----------------------------------------------------------------------------------------


def gates(pod: Object) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return NONE
    holding = {c["type"] for c in pod["status"].get("conditions") or () if c["status"] == "True"}
    return f"{sum(gate['conditionType'] in holding for gate in gates)}/{len(gates)}"


def pod_ip(pod: Object) -> str:
    addresses = pod["status"].get("podIPs") or ()
    return str(addresses[0]["ip"]) if addresses else str(pod["status"].get("podIP") or NONE)


def template(field: str) -> Any:
    def cell(obj: Object) -> str:
        return ",".join(c.get(field, "") for c in obj["spec"]["template"]["spec"].get("containers") or ())

    return cell


def selector(obj: Object) -> str:
    return render(obj["spec"].get("selector") or {}) or NONE


def of(obj: Object, field: str) -> int:
    return int(obj["status"].get(field) or 0)


def ready_of_wanted(obj: Object) -> str:
    return f"{of(obj, 'readyReplicas')}/{obj['spec'].get('replicas', 0)}"


# -- jobs ------------------------------------------------------------------------------------------------------------


def job_status(job: Object) -> str:
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


def completions(job: Object) -> str:
    done, wanted = of(job, "succeeded"), job["spec"].get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = job["spec"].get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def duration(job: Object) -> str:
    start, end = job["status"].get("startTime"), job["status"].get("completionTime")
    if not start:
        return ""
    if not end:
        return since(start)
    return human(timestamp.seconds(end) - timestamp.seconds(start))


# -- nodes -----------------------------------------------------------------------------------------------------------


def node_status(node: Object) -> str:
    ready = next((c for c in node["status"].get("conditions") or () if c["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if node["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE)
    return ",".join(roles) or NONE


def address(kind: str) -> Any:
    def cell(node: Object) -> str:
        found = [a["address"] for a in node["status"].get("addresses") or () if a["type"] == kind]
        return str(found[0]) if found else NONE

    return cell


# -- services and the rest -------------------------------------------------------------------------------------------


def service_ports(service: Object) -> str:
    shown = []
    for port in service["spec"].get("ports") or ():
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def external(service: Object) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        return ",".join(spec.get("externalIPs") or ()) or "<pending>"
    return ",".join(spec.get("externalIPs") or ()) or NONE


def service_selector(service: Object) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((service["spec"].get("selector") or {}).items())) or NONE


def quota(*, limits: bool) -> Any:
    def cell(quota: Object) -> str:
        hard, used = quota["status"].get("hard") or {}, quota["status"].get("used") or {}
        names = sorted(name for name in hard if name.startswith("limits.") is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def slice_ports(endpoints: Object) -> str:
    return ",".join(str(port.get("port", "<unset>")) for port in endpoints.get("ports") or ()) or "<unset>"


def slice_addresses(endpoints: Object) -> str:
    found = [address for entry in endpoints.get("endpoints") or () for address in entry.get("addresses") or ()]
    if not found:
        return "<unset>"
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more


def subjects(kind: str) -> Any:
    def cell(binding: Object) -> str:
        found = [s for s in binding.get("subjects") or () if s.get("kind") == kind]
        return ", ".join(f"{s['namespace']}/{s['name']}" if kind == "ServiceAccount" else s["name"] for s in found)

    return cell


def role(binding: Object) -> str:
    return f"{binding['roleRef'].get('kind', '')}/{binding['roleRef'].get('name', '')}"


def entries(*fields: str) -> Any:
    return lambda obj: sum(len(obj.get(field) or ()) for field in fields)


# -- events ----------------------------------------------------------------------------------------------------------


def either(event: Object, core: str, new: str) -> Any:
    return event.get(core) if event.get(core) is not None else event.get(new)


def about(event: Object) -> str:
    about = either(event, "involvedObject", "regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def last_seen(event: Object) -> str:
    last = (event.get("series") or {}).get("lastObservedTime") or either(
        event, "lastTimestamp", "deprecatedLastTimestamp"
    )
    return since(last or event.get("eventTime"))


def first_seen(event: Object) -> str:
    return since(either(event, "firstTimestamp", "deprecatedFirstTimestamp") or event.get("eventTime"))


def event_source(event: Object) -> str:
    source = either(event, "source", "deprecatedSource") or {}
    component = source.get("component") or either(event, "reportingComponent", "reportingController") or ""
    place = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, place)))


def event_count(event: Object) -> int:
    series = (event.get("series") or {}).get("count")
    return int(series or either(event, "count", "deprecatedCount") or 1)
