"""Create, read, replace: what each answers, refuses and warns about."""

import pytest

from tests.conformance.samples import Object, config, container, job, made, pod, service, workload
from tests.conformance.trace import Trace


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("pods", pod(), id="pod"),
        pytest.param("configmaps", config(a="1"), id="configmap"),
        pytest.param("secrets", made("Secret", "s", stringData={"a": "b"}), id="secret"),
        pytest.param("serviceaccounts", made("ServiceAccount", "s"), id="serviceaccount"),
        pytest.param("services", service(), id="service"),
        pytest.param("services", service(clusterIP="None"), id="headless-service"),
        pytest.param(
            "limitranges",
            made("LimitRange", "l", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]}),
            id="limitrange",
        ),
        pytest.param("resourcequotas", made("ResourceQuota", "q", spec={"hard": {"pods": "3", "cpu": 2}}), id="quota"),
    ],
)
async def test_create_core(t: Trace, path: str, body: Object) -> None:
    await t.post(
        f"{t.core}/{path}",
        body,
        view=lambda made: {key: made.get(key) for key in ("metadata", "spec", "data", "type")},
        code=201,
    )


@pytest.mark.parametrize(
    ("group", "path", "body"),
    [
        pytest.param("apps/v1", "deployments", workload("Deployment"), id="deployment"),
        pytest.param("apps/v1", "replicasets", workload("ReplicaSet"), id="replicaset"),
        pytest.param("apps/v1", "statefulsets", workload("StatefulSet"), id="statefulset"),
        pytest.param("batch/v1", "jobs", job(), id="job"),
        pytest.param(
            "batch/v1",
            "jobs",
            job(completionMode="Indexed", completions=2, parallelism=2, managedBy="edl.dev/operator"),
            id="managed-job",
        ),
        pytest.param(
            "coordination.k8s.io/v1",
            "leases",
            made("Lease", "l", "coordination.k8s.io/v1", spec={"holderIdentity": "a", "leaseDurationSeconds": 5}),
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
                endpoints=[{"addresses": ["10.1.2.3"]}],
                ports=[{"port": 80}],
            ),
            id="endpointslice",
        ),
        pytest.param(
            "rbac.authorization.k8s.io/v1",
            "roles",
            made(
                "Role",
                "r",
                "rbac.authorization.k8s.io/v1",
                rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            ),
            id="role",
        ),
    ],
)
async def test_create_group(t: Trace, group: str, path: str, body: Object) -> None:
    await t.post(f"{t.group(group)}/{path}", body, code=201)


async def test_pod_with_everything_keeps_it(t: Trace) -> None:
    full = pod(
        containers=[
            container(
                command=["sh"],
                args=[],
                env=[
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                ports=[{"containerPort": 80}],
                resources={"limits": {"cpu": 0.5, "memory": "1024Mi", "nvidia.com/gpu": 1}},
                readinessProbe={"httpGet": {"port": 80}},
                lifecycle={"preStop": {"exec": {"command": ["true"]}}},
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
            )
        ],
        volumes=[
            {"name": "v", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "x"}},
            {"name": "h", "hostPath": {"path": "/"}},
        ],
        hostNetwork=False,
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}],
        automountServiceAccountToken=False,
    )
    await t.post(f"{t.core}/pods", full, code=201)


async def test_create_twice_conflicts(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config())
    await t.post(f"{t.core}/configmaps", config(), code=409)


async def test_generate_name(t: Trace) -> None:
    body = config()
    body["metadata"] = {"generateName": "made-"}
    await t.post(f"{t.core}/configmaps", body, code=201)


async def test_dry_run_creates_nothing(t: Trace) -> None:
    await t.post(f"{t.core}/configmaps", config(a="1"), query={"dryRun": "All"}, code=201)
    await t.get(f"{t.core}/configmaps/m", code=404)


async def test_dry_run_must_be_all(t: Trace) -> None:
    await t.post(f"{t.core}/configmaps", config(), query={"dryRun": "Some"}, code=422)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"kind":', id="cut-off"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'"x"', id="string"),
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no-name"),
        pytest.param(b'{"metadata":{"name":"P_2"},"spec":{"containers":[{"name":"c","image":"i"}]}}', id="bad-name"),
        pytest.param(b'{"metadata":{"name":"x","namespace":"other"}}', id="other-namespace"),
        pytest.param(b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}', id="other-kind"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v2","metadata":{"name":"x"}}', id="other-version"),
        pytest.param(b'{"metadata":{"name":"x"},"spec":{"containers":"x"}}', id="string-for-list"),
        pytest.param(b'{"metadata":{"name":"x"},"spec":{"containers":[{"name":1}]}}', id="number-for-string"),
        pytest.param(
            b'{"metadata":{"name":"x"},"spec":{"terminationGracePeriodSeconds":1.5}}', id="fraction-for-integer"
        ),
        pytest.param(b'{"metadata":{"name":"x"},"spec":{"activeDeadlineSeconds":"5"}}', id="string-for-integer"),
        pytest.param(b'{"metadata":{"name":"x"},"spec":{"hostNetwork":"yes"}}', id="string-for-bool"),
        pytest.param(b'{"metadata":{"name":"x","labels":[1]}}', id="list-for-map"),
        pytest.param(
            b'{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"abc"}}}]}}',
            id="bad-quantity",
        ),
    ],
)
async def test_refused_bodies(t: Trace, body: bytes) -> None:
    await t.call("POST", f"{t.core}/pods", body)


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "application/merge-patch+json"])
async def test_unsupported_media_type(t: Trace, media: str) -> None:
    await t.call("POST", f"{t.core}/pods", pod(), content_type=media, code=415)


async def test_yaml_body_and_answer(t: Trace) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\ndata:\n  a: 'true'\n"
    await t.call("POST", f"{t.core}/configmaps", text, content_type="application/yaml", show="data", code=201)
    _, answer, _ = await t.send("GET", f"{t.core}/configmaps/plain", accept="application/yaml", raw=True)
    assert "kind: ConfigMap" in answer
    assert 'a: "true"' in answer or "a: 'true'" in answer


async def test_nulls_and_empties_are_dropped(t: Trace) -> None:
    body = config("n")
    body["metadata"] |= {"labels": {}, "annotations": None}
    await t.post(f"{t.core}/configmaps", {**body, "data": None, "binaryData": {}}, code=201)


@pytest.mark.parametrize("mode", ["", "Warn", "Ignore", "Strict"])
async def test_unknown_and_duplicate_fields(t: Trace, mode: str) -> None:
    spec = b'{"foo":1,"containers":[{"name":"c","image":"i","bar":{"x":2}}],"nodeName":"","nodeName":""}'
    text = b'{"metadata":{"name":"u","xx":1},"spec":' + spec + b"}"
    await t.call(
        "POST", f"{t.core}/pods", text, query={"fieldValidation": mode} if mode else None, show="metadata.name"
    )


async def test_field_validation_mode_must_be_known(t: Trace) -> None:
    await t.post(f"{t.core}/configmaps", config(), query={"fieldValidation": "Loose"}, code=422)


async def test_namespace_must_exist(t: Trace) -> None:
    await t.post("/api/v1/namespaces/no-such-place/configmaps", config(), code=404)


async def test_get_what_is_not_there(t: Trace) -> None:
    await t.get(f"{t.core}/pods/nobody", code=404)
    await t.get(f"{t.group('apps/v1')}/deployments/nobody", code=404)
    await t.get("/api/v1/namespaces/nobody", code=404)


async def test_replace_keeps_identity_and_counts_generation(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments"
    first = await t.make(path, workload("Deployment", replicas=1))
    changed = {**first, "spec": {**first["spec"], "replicas": 2}}

    def view(found: Object) -> Object:
        return {"meta": found["metadata"], "replicas": found["spec"]["replicas"]}

    await t.put(f"{path}/w", changed, view=view, code=200)
    labelled = {**changed, "metadata": {**first["metadata"], "labels": {"a": "b"}, "resourceVersion": ""}}
    await t.put(f"{path}/w", labelled, view=view, code=200)


async def test_replace_with_a_stale_version_conflicts(t: Trace) -> None:
    first = await t.make(f"{t.core}/configmaps", config(a="1"))
    await t.put(f"{t.core}/configmaps/m", {**first, "data": {"a": "2"}}, show="data", code=200)
    await t.put(f"{t.core}/configmaps/m", {**first, "data": {"a": "3"}}, code=409)


async def test_replace_without_a_version_overwrites(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config(a="1"))
    await t.put(f"{t.core}/configmaps/m", config(b="2"), show="data", code=200)


async def test_replace_with_another_uid_conflicts(t: Trace) -> None:
    first = await t.make(f"{t.core}/configmaps", config())
    other = {**first, "metadata": {**first["metadata"], "uid": "11111111-2222-3333-4444-555555555555"}}
    await t.put(f"{t.core}/configmaps/m", other, code=409)


async def test_replace_with_another_name_is_refused(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config())
    await t.put(f"{t.core}/configmaps/m", config("other"), code=400)


async def test_replace_what_is_not_there(t: Trace) -> None:
    await t.put(f"{t.core}/configmaps/nobody", config("nobody"), code=404)


async def test_a_write_that_changes_nothing_keeps_the_version(t: Trace) -> None:
    first = await t.make(f"{t.core}/configmaps", config(a="1"))
    second = await t.put(f"{t.core}/configmaps/m", first, code=200)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_versions_grow_and_are_shared(t: Trace) -> None:
    one = await t.make(f"{t.core}/configmaps", config("one"))
    two = await t.make(f"{t.core}/secrets", made("Secret", "two"))
    listed = await t.get(f"{t.core}/configmaps", query={"labelSelector": "x=y"}, show="items", code=200)
    versions = [int(found["metadata"]["resourceVersion"]) for found in (one, two, listed)]
    assert versions[0] < versions[1] <= versions[2]


async def test_server_side_metadata_cannot_be_set(t: Trace) -> None:
    body = config("c")
    body["metadata"] |= {
        "uid": "x",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "resourceVersion": "7",
        "generation": 9,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    await t.post(f"{t.core}/configmaps", body, code=500)
    del body["metadata"]["resourceVersion"]
    made_ = await t.post(f"{t.core}/configmaps", body, code=201)
    assert not made_["metadata"]["creationTimestamp"].startswith("2001")


async def test_status_is_isolated(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/replicasets"
    first = await t.make(path, {**workload("ReplicaSet", replicas=3), "status": {"replicas": 9}})

    def view(found: Object) -> Object:
        meta = found["metadata"]
        return {"replicas": found["spec"]["replicas"], "status": found["status"], "generation": meta["generation"]}

    await t.get(f"{path}/w", view=view, code=200)
    both = {**first, "spec": {**first["spec"], "replicas": 4}, "status": {"replicas": 2}}
    await t.put(f"{path}/w/status", both, view=view, code=200)
    both["metadata"] = {**both["metadata"], "resourceVersion": ""}
    await t.put(f"{path}/w", {**both, "status": {"replicas": 7}}, view=view, code=200)


async def test_lease_is_created_by_replacement(t: Trace) -> None:
    lease = made("Lease", "l", "coordination.k8s.io/v1", spec={"holderIdentity": "a"})
    await t.put(f"{t.group('coordination.k8s.io/v1')}/leases/l", lease, code=201)


async def test_secret_string_data_wins(t: Trace) -> None:
    body = made("Secret", "s", data={"a": "eA==", "b": "eQ=="}, stringData={"a": "new"})
    await t.post(f"{t.core}/secrets", body, code=201)


async def test_secret_data_must_be_base64(t: Trace) -> None:
    await t.post(f"{t.core}/secrets", made("Secret", "s", data={"a": "not base64!"}), code=400)


async def test_events_have_two_faces(t: Trace) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": t.namespace, "apiVersion": "v1"}
    event = made("Event", "e", involvedObject=about, reason="Because", message="it happened", type="Normal", count=2)
    await t.post(f"{t.core}/events", event, code=201)
    await t.get(f"{t.group('events.k8s.io/v1')}/events/e", code=200)
    await t.get(
        f"{t.core}/events",
        query={"fieldSelector": "involvedObject.name=p,reason=Because"},
        view=lambda found: len(found["items"]),
        code=200,
    )


async def test_protobuf_body(t: Trace) -> None:
    """What typed Go clients send: k8s\\0, then runtime.Unknown around a message."""
    meta = b"\n\x02pb"  # ObjectMeta.name
    data = b"\n\x01a\x12\x01b"  # one entry of ConfigMap.data
    message = b"\n" + bytes([len(meta)]) + meta + b"\x12" + bytes([len(data)]) + data
    kind = b"\n\x02v1\x12\tConfigMap"
    body = b"k8s\x00\n" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(message)]) + message
    await t.call("POST", f"{t.core}/configmaps", body, content_type="application/vnd.kubernetes.protobuf", code=201)
