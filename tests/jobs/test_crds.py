"""The CRDs: structural, described, with the same bounds and rules as our own validation."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from edl.jobs.crds import crds
from edl.jobs.registry import KINDS
from tests.api.samples import ALL, EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB, Data, varied

Schema = dict[str, Any]

CRDS: dict[str, Schema] = {crd["metadata"]["name"]: crd for crd in crds()}


def nodes(schema: Schema, at: str) -> Iterator[tuple[str, Schema]]:
    yield at, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{at}.{name}")
    for part in ("items", "additionalProperties"):
        if part in schema:
            yield from nodes(schema[part], f"{at}.{part}")


def schema_nodes() -> list[tuple[str, Schema]]:
    return [
        node
        for name, crd in CRDS.items()
        for version in crd["spec"]["versions"]
        for node in nodes(version["schema"]["openAPIV3Schema"], name)
    ]


def schema_of(value: Data) -> Schema:
    kind = next(kind for kind in KINDS if value["apiVersion"] in kind.api_versions)
    schema: Schema = CRDS[kind.crd_name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_names() -> None:
    assert list(CRDS) == [
        "trainingjobs.paddlepaddle.org",
        "elasticjobs.elastic.pytorch.org",
        "elasticjobs.elastic.iml.github.io",
        "jobresources.elastic.easydl.org",
    ]
    short = [name for crd in CRDS.values() for name in crd["spec"]["names"]["shortNames"]]
    assert sorted(set(short)) == sorted(short)
    assert "tj" in short
    # `kubectl describe elasticjob NAME` must find the PyTorch one, so only that may have the singular.
    singulars = [crd["spec"]["names"]["singular"] for crd in CRDS.values()]
    assert singulars.count("elasticjob") == 1
    assert all(crd["spec"]["names"]["categories"] == ["edl"] for crd in CRDS.values())


def test_versions_and_subresources() -> None:
    versions = CRDS["trainingjobs.paddlepaddle.org"]["spec"]["versions"]
    assert [(version["name"], version["storage"]) for version in versions] == [("v1", True), ("v1alpha1", False)]
    assert versions[0]["schema"] == versions[1]["schema"]
    assert versions[0]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.trainer.replicas",
        "statusReplicasPath": ".status.scale_status.current",
        "labelSelectorPath": ".status.scale_status.selector",
    }
    assert all("status" in version["subresources"] for crd in CRDS.values() for version in crd["spec"]["versions"])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_every_path_that_kubectl_reads_exists_in_the_schema(kind: Any) -> None:
    version = CRDS[kind.crd_name]["spec"]["versions"][0]
    scale = version["subresources"].get("scale", {})
    for path in (*(column["jsonPath"] for column in version["additionalPrinterColumns"]), *scale.values()):
        schema = version["schema"]["openAPIV3Schema"]
        for step in path.lstrip(".").split("."):
            if schema.get("x-kubernetes-preserve-unknown-fields") or step == "creationTimestamp":
                break
            schema = schema.get("properties", {}).get(step) or schema["additionalProperties"]


def test_every_node_is_structural_and_every_field_described() -> None:
    for at, node in schema_nodes():
        untyped = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
        assert "type" in node or untyped, at
        assert "default" not in node, f"{at}: nothing is written into the user's spec"
        for name, field in node.get("properties", {}).items():
            assert field.get("description") or name == "metadata", f"{at}.{name} has no description"


def test_keys_of_keyed_lists_are_required() -> None:
    keyed = [node for _, node in schema_nodes() if node.get("x-kubernetes-list-type") == "map"]
    assert keyed
    for node in keyed:
        assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"])


def test_rules_are_cheap() -> None:
    """What a server refused once: strings built in a message. What would be costly: anything that loops."""
    rules = [rule for _, node in schema_nodes() for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) > 10
    for rule in rules:
        assert "messageExpression" not in rule
        assert not any(loop in rule["rule"] for loop in (".all(", ".exists(", ".map(", ".filter("))


def test_the_rules_of_a_trainer() -> None:
    trainer = schema_of(TRAINING_JOB)["properties"]["spec"]["properties"]["trainer"]
    assert trainer["required"] == ["entrypoint", "min-instance"]
    assert trainer["x-kubernetes-validations"][0] == {
        "rule": "!has(self.max__dash__instance) || self.min__dash__instance <= self.max__dash__instance",
        "message": "min-instance is more than max-instance",
        "fieldPath": "['min-instance']",
    }
    assert trainer["properties"]["min-instance"] == {
        "description": "The fewest trainers that the job runs with, 1 or more.",
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000_000,
        "format": "int32",
    }


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample["metadata"]["name"])
def test_samples_satisfy_the_schema(sample: Data) -> None:
    jsonschema_rs.validator_for(schema_of(sample)).validate(sample)


@pytest.mark.parametrize(
    ("sample", "path", "value"),
    [
        (TRAINING_JOB, "spec.trainer.min-instance", 0),
        (TRAINING_JOB, "spec.trainer.entrypoint", ""),
        (TRAINING_JOB, "spec.priority", "Hihg"),
        (TRAINING_JOB, "spec.priority", 0),
        (TRAINING_JOB, "spec.trainer.resources.limits.cpu", "lots"),
        (TRAINING_JOB, "spec.trainer.resources.limits.cpu", -1),
        (TRAINING_JOB, "spec.trainer.resources.limits.cpu", True),
        (TRAINING_JOB, "spec.trainer.resources.limits.cpu", ["1"]),
        (TRAINING_JOB, "spec.etcd.replicas", 2),
        (PYTORCH_JOB, "spec.replicaSpecs.Worker.restartPolicy", "Sometimes"),
        (PYTORCH_JOB, "spec.maxReplicas", 10**7),
        (EASYDL_JOB, "spec.distributionStrategy", "gossip"),
        (JOB_RESOURCE, "spec.worker.replicas", -1),
        (JOB_RESOURCE, "spec.selector.name", "elastic-deepctr-job  // Job Name"),
        (JOB_RESOURCE, "spec.worker.resource.gpu", "one"),
    ],
)
def test_bounds_are_in_the_schema(sample: Data, path: str, value: object) -> None:
    assert not jsonschema_rs.is_valid(schema_of(sample), varied(sample, **{path: value}))


@pytest.mark.parametrize("value", [0.5, 1, "0.5", "500m", "1Gi", "1e3"])
def test_quantities_are_numbers_or_text(value: object) -> None:
    changed = varied(TRAINING_JOB, **{"spec.trainer.resources.limits.cpu": value})
    assert jsonschema_rs.is_valid(schema_of(changed), changed)
