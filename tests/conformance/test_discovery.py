"""Discovery and OpenAPI: what kubectl learns before it does anything. Only what we serve is compared."""

from typing import Any

import pytest

from tests.conformance.defining import define
from tests.conformance.samples import GADGETS, Object, definition
from tests.conformance.trace import Trace

SERVED = {
    "v1": "configmaps events limitranges namespaces nodes pods resourcequotas secrets serviceaccounts services",
    "apps/v1": "deployments replicasets statefulsets",
    "batch/v1": "jobs",
    "coordination.k8s.io/v1": "leases",
    "discovery.k8s.io/v1": "endpointslices",
    "events.k8s.io/v1": "events",
    "rbac.authorization.k8s.io/v1": "clusterrolebindings clusterroles rolebindings roles",
    "scheduling.k8s.io/v1": "priorityclasses",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "authorization.k8s.io/v1": "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    "authentication.k8s.io/v1": "selfsubjectreviews tokenreviews",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def base(group_version: str) -> str:
    return "/api/v1" if group_version == "v1" else f"/apis/{group_version}"


@pytest.mark.parametrize("group_version", SERVED)
async def test_resources(t: Trace, group_version: str) -> None:
    def view(found: Object) -> Any:
        wanted = SERVED[group_version].split()
        return [
            {
                key: sorted(value) if key == "verbs" else value
                for key, value in entry.items()
                if key != "storageVersionHash"
            }
            for entry in sorted(found["resources"], key=lambda entry: entry["name"])
            if entry["name"] in wanted
        ]

    await t.get(base(group_version), view=view, code=200)


async def test_subresources_of_pods(t: Trace) -> None:
    served = {
        f"pods/{name}" for name in ("attach", "binding", "eviction", "exec", "log", "portforward", "resize", "status")
    }
    await t.get(
        "/api/v1",
        view=lambda found: sorted(
            [entry["name"], entry["kind"], entry.get("group"), entry["verbs"]]
            for entry in found["resources"]
            if entry["name"] in served
        ),
        code=200,
    )


async def test_groups(t: Trace) -> None:
    wanted = {group_version.partition("/")[0] for group_version in SERVED}
    await t.get(
        "/apis",
        view=lambda found: sorted(
            [g["name"], g["preferredVersion"]["version"]]
            for g in found["groups"]
            if g["name"] in wanted and g["name"] != "events.k8s.io"
        ),
        code=200,
    )
    await t.get("/apis/apps", code=200)
    await t.get("/api", view=lambda found: [found["kind"], found["versions"]], code=200)


async def test_aggregated(t: Trace) -> None:
    def view(found: Object) -> Any:
        apps = next(item for item in found["items"] if item["metadata"]["name"] == "apps")
        version = apps["versions"][0]
        resources = {entry["resource"]: entry for entry in version["resources"]}
        shown = [
            {
                **resources[name],
                "verbs": sorted(resources[name]["verbs"]),
                "subresources": sorted(sub["subresource"] for sub in resources[name]["subresources"]),
            }
            for name in SERVED["apps/v1"].split()
        ]
        return [found["kind"], found["apiVersion"], version["version"], version["freshness"], shown]

    await t.get("/apis", accept=AGGREGATED, view=view, code=200)


async def test_custom_group(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.get(f"/apis/{GADGETS}", code=200)
    await t.get(
        f"/apis/{GADGETS}/v1",
        view=lambda found: sorted(
            ({**entry, "storageVersionHash": "", "verbs": sorted(entry["verbs"])} for entry in found["resources"]),
            key=lambda entry: entry["name"],
        ),
        code=200,
    )


@pytest.mark.parametrize("place", ["api/v1", "apis/apps/v1", "apis/batch/v1"])
async def test_openapi_index(t: Trace, place: str) -> None:
    await t.get(
        "/openapi/v3", view=lambda found: found["paths"][place]["serverRelativeURL"].partition("?")[0], code=200
    )


@pytest.mark.parametrize(
    ("place", "model"),
    [
        ("api/v1", "io.k8s.api.core.v1.Pod"),
        ("api/v1", "io.k8s.api.core.v1.PodSpec"),
        ("api/v1", "io.k8s.api.core.v1.Container"),
        ("api/v1", "io.k8s.api.core.v1.Volume"),
        ("api/v1", "io.k8s.api.core.v1.Service"),
        ("api/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("apis/apps/v1", "io.k8s.api.apps.v1.DeploymentSpec"),
        ("apis/batch/v1", "io.k8s.api.batch.v1.JobSpec"),
    ],
)
async def test_fields_of_models(t: Trace, place: str, model: str) -> None:
    def view(found: Object) -> Any:
        schema = found["components"]["schemas"][model]
        fields = {}
        for name, field in schema["properties"].items():
            reference = field.get("$ref") or (field.get("allOf") or [{}])[0].get("$ref", "")
            kind = field.get("type") or reference.rpartition(".")[2] or "any"
            scalars = {
                "Time": "string",
                "MicroTime": "string",
                "Quantity": "any",
                "IntOrString": "any",
                "FieldsV1": "object",
            }
            fields[name] = [
                scalars.get(kind, kind),
                field.get("x-kubernetes-list-type"),
                field.get("x-kubernetes-list-map-keys"),
                field.get("x-kubernetes-patch-merge-key"),
                field.get("enum"),
            ]
        return {"fields": fields, "required": sorted(schema.get("required", []))}

    await t.get(f"/openapi/v3/{place}", view=view, code=200)


async def test_operations_offer_field_validation(t: Trace) -> None:
    def view(found: Object) -> Any:
        path = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"]
        return [path["x-kubernetes-group-version-kind"], "fieldValidation" in [p["name"] for p in path["parameters"]]]

    await t.get("/openapi/v3/apis/apps/v1", view=view, code=200)
