"""Tables: the columns and cells that kubectl prints."""

import pytest

from tests.conformance.samples import Object, config, container, job, made, pod, service, template, workload
from tests.conformance.trace import TABLE, Trace

ENDED: Object = {"terminated": {"exitCode": 3, "reason": "Error"}}
DONE: Object = {"terminated": {"exitCode": 0, "reason": "Completed"}}
RUNNING: Object = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def cells(found: Object) -> Object:
    return {
        "columns": [[c["name"], c["type"], c["format"], c["priority"]] for c in found["columnDefinitions"]],
        "rows": [row["cells"] for row in found["rows"] or ()],
    }


def status(name: str = "c", *, ready: bool = False, restarts: int = 0, **state: object) -> Object:
    return {"name": name, "ready": ready, "restartCount": restarts, "image": "i", "imageID": "", "state": state}


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param({"phase": "Running", "containerStatuses": [status(ready=True, **RUNNING)]}, id="running"),
        pytest.param(
            {"phase": "Running", "containerStatuses": [status(restarts=2, waiting={"reason": "CrashLoopBackOff"})]},
            id="crashing",
        ),
        pytest.param({"phase": "Succeeded", "containerStatuses": [status(**DONE)]}, id="succeeded"),
        pytest.param({"phase": "Failed", "containerStatuses": [status(**ENDED)]}, id="failed"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, id="evicted"),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [status(terminated={"exitCode": 137, "signal": 9})]}, id="signal"
        ),
        pytest.param({"phase": "Failed", "containerStatuses": [status(terminated={"exitCode": 4})]}, id="code"),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [status(waiting={"reason": "ContainerCreating"})]}, id="creating"
        ),
        pytest.param({"phase": "Pending", "initContainerStatuses": [status("i", **RUNNING)]}, id="initializing"),
        pytest.param({"phase": "Pending", "initContainerStatuses": [status("i", **ENDED)]}, id="init-failed"),
        pytest.param(
            {
                "phase": "Running",
                "podIP": "10.1.1.1",
                "podIPs": [{"ip": "10.1.1.1"}],
                "initContainerStatuses": [status("i", **DONE)],
                "containerStatuses": [status(ready=True, **RUNNING)],
            },
            id="after-init",
        ),
    ],
)
async def test_pod_rows(t: Trace, observed: Object) -> None:
    await t.make(f"{t.core}/pods", pod(initContainers=[container("i")], nodeName="n"))
    code, answer, _ = await t.send(
        "PATCH", f"{t.core}/pods/p/status", {"status": observed}, content_type="application/merge-patch+json"
    )
    assert code == 200, answer
    await t.get(f"{t.core}/pods", accept=TABLE, view=cells, code=200)


async def test_terminating_pod(t: Trace) -> None:
    await t.make(f"{t.core}/pods", pod(nodeName="n"))
    await t.send("DELETE", f"{t.core}/pods/p")
    await t.get(f"{t.core}/pods/p", accept=TABLE, view=cells, code=200)


async def test_whole_table(t: Trace) -> None:
    await t.make(f"{t.core}/pods", pod())
    await t.get(f"{t.core}/pods", accept=TABLE, code=200)


@pytest.mark.parametrize("include", ["None", "Object", "Metadata"])
async def test_included_objects(t: Trace, include: str) -> None:
    await t.make(f"{t.core}/configmaps", config(a="1"))
    await t.get(f"{t.core}/configmaps/m", accept=TABLE, query={"includeObject": include}, show="rows", code=200)


async def test_empty_table(t: Trace) -> None:
    await t.get(f"{t.core}/secrets", accept=TABLE, code=200)


@pytest.mark.parametrize(
    ("group", "path", "body"),
    [
        pytest.param(
            "apps/v1",
            "deployments",
            workload("Deployment", replicas=3, template=template(containers=[container("x"), container("y")])),
            id="deployment",
        ),
        pytest.param("apps/v1", "replicasets", workload("ReplicaSet", replicas=2), id="replicaset"),
        pytest.param("apps/v1", "statefulsets", workload("StatefulSet"), id="statefulset"),
        pytest.param("batch/v1", "jobs", job(completions=3, parallelism=2), id="job"),
        pytest.param("batch/v1", "jobs", job(parallelism=2), id="work-queue-job"),
        pytest.param(
            "coordination.k8s.io/v1",
            "leases",
            made("Lease", "l", "coordination.k8s.io/v1", spec={"holderIdentity": "me"}),
            id="lease",
        ),
        pytest.param(
            "discovery.k8s.io/v1",
            "endpointslices",
            made(
                "EndpointSlice",
                "e",
                "discovery.k8s.io/v1",
                addressType="IPv4",
                endpoints=[{"addresses": [f"10.1.1.{n}"]} for n in range(5)],
                ports=[{"port": 80}, {"port": 81, "name": "b"}],
            ),
            id="slice",
        ),
        pytest.param(
            "rbac.authorization.k8s.io/v1",
            "rolebindings",
            made(
                "RoleBinding",
                "b",
                "rbac.authorization.k8s.io/v1",
                roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                subjects=[{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
            ),
            id="rolebinding",
        ),
    ],
)
async def test_group_rows(t: Trace, group: str, path: str, body: Object) -> None:
    await t.make(f"{t.group(group)}/{path}", body)
    await t.get(
        f"{t.group(group)}/{path}",
        accept=TABLE,
        view=lambda found: (
            [[c for c in row if c != body["metadata"]["name"]] for row in cells(found)["rows"]]
            if path == "jobs"
            else cells(found)
        ),
        code=200,
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(
            "services",
            service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]),
            id="service",
        ),
        pytest.param("services", service(clusterIP="None"), id="headless"),
        pytest.param(
            "services", made("Service", "s", spec={"type": "ExternalName", "externalName": "x.y"}), id="external"
        ),
        pytest.param("secrets", made("Secret", "s", stringData={"a": "1", "b": "2"}), id="secret"),
        pytest.param("limitranges", made("LimitRange", "l", spec={"limits": []}), id="limitrange"),
    ],
)
async def test_core_rows(t: Trace, path: str, body: Object) -> None:
    await t.make(f"{t.core}/{path}", body)
    await t.get(f"{t.core}/{path}", accept=TABLE, view=cells, code=200)


async def test_event_rows(t: Trace) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": t.namespace}
    event = made(
        "Event",
        "e",
        involvedObject=about,
        reason="Because",
        message="it did ",
        type="Warning",
        count=4,
        source={"component": "me", "host": "here"},
    )
    await t.make(f"{t.core}/events", event)
    await t.get(f"{t.core}/events", accept=TABLE, view=cells, code=200)


async def test_job_status_words(t: Trace) -> None:
    path = f"{t.group('batch/v1')}/jobs"
    await t.make(path, job(managedBy="a.b/c"))
    await t.send(
        "PATCH",
        f"{path}/j/status",
        {"status": {"startTime": "2026-01-01T00:00:00Z"}},
        content_type="application/merge-patch+json",
    )
    done = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status_ = {
        "status": {
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:02:05Z",
            "succeeded": 1,
            "conditions": done,
        }
    }
    code, answer, _ = await t.send("PATCH", f"{path}/j/status", status_, content_type="application/merge-patch+json")
    assert code == 200, answer
    await t.get(path, accept=TABLE, view=lambda found: found["rows"][0]["cells"][:4], code=200)


async def test_node_row(t: Trace) -> None:
    name = f"{t.namespace}-node"
    node = made(
        "Node",
        name,
        status={
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1"},
        },
    )
    node["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    await t.make("/api/v1/nodes", {**node, "spec": {"unschedulable": True}})
    await t.get(f"/api/v1/nodes/{name}", accept=TABLE, view=cells, code=200)
    await t.send("DELETE", f"/api/v1/nodes/{name}")
