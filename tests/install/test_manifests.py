"""What `edl install` prints: complete, consistent with what the operator expects, and without any privilege."""

import json
import re
import time
from argparse import ArgumentParser
from typing import Any, cast

import pytest
import yaml
from prometheus_client import CollectorRegistry

from edl.api.crds import crds
from edl.api.kinds import KINDS as API_KINDS
from edl.cli import operator as operator_command
from edl.cli.main import main
from edl.install.choices import Choices, problems
from edl.install.deployment import PROBE_PORT, WEBHOOK_PORT, arguments
from edl.install.manifests import manifests
from edl.install.rights import cluster_rights, own_rights
from edl.kube.client import Client
from edl.kube.controller import Controller
from edl.kube.metrics import RuntimeCollector
from edl.kube.transport import Transport
from edl.operator.book import JobBook
from edl.operator.caches import Caches
from edl.operator.executor import RESOURCES
from edl.operator.kinds import KINDS
from edl.operator.metrics import CycleMetrics, JobCollector
from edl.operator.resources import resource_of
from edl.operator.service import PORT_NAME
from edl.operator.settings import SERVICE, SERVICE_PORT

Data = dict[str, Any]
NAMELESS = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingWebhookConfiguration",
}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Data]:
    assert main(["install", *words]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def of_kind(objects: list[Data], kind: str) -> list[Data]:
    return [body for body in objects if body["kind"] == kind]


def test_it_prints_what_is_made_of_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-n", "ml", "--image", "i:1", "--replicas", "3", "--policy", "fulfillment", "--memory-limit", "2Gi"]
    wanted = Choices(namespace="ml", image="i:1", replicas=3, policy="fulfillment", memory_limit="2Gi")
    assert printed(capsys, *words) == manifests(wanted)
    assert printed(capsys) == manifests(Choices())


def test_all_is_there_in_an_order_that_works() -> None:
    kinds = [body["kind"] for body in manifests(Choices())]
    assert kinds[0] == "Namespace"
    assert kinds[1:5] == ["CustomResourceDefinition"] * 4
    assert kinds[-2:] == ["Deployment", "ValidatingWebhookConfiguration"]
    assert {"ServiceAccount", "Role", "ClusterRole", "Service", "PodDisruptionBudget"} < set(kinds)


def test_everything_bears_our_label_and_is_in_the_namespace() -> None:
    for body in manifests(Choices(namespace="ml")):
        metadata = body["metadata"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "edl"
        assert metadata.get("namespace") == (None if body["kind"] in NAMELESS else "ml"), body["kind"]


def test_parts_can_be_left_out() -> None:
    bare = manifests(Choices(create_namespace=False, crds=False))
    assert not of_kind(bare, "Namespace")
    assert not of_kind(bare, "CustomResourceDefinition")
    assert of_kind(manifests(Choices()), "CustomResourceDefinition") == crds()


def test_operators_and_brain_have_no_privilege() -> None:
    (namespace,) = of_kind(manifests(Choices()), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for deployment in of_kind(manifests(Choices()), "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert restricted.items() <= pod["securityContext"].items()
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_operator_understands_what_it_is_told() -> None:
    """The very options of the Deployment, read by the very command."""
    choices = Choices(image="i:1", policy="fulfillment", max_load="0.5", available="requests", lease="9")
    parser = ArgumentParser()
    operator_command.arguments(parser)
    words = [word.replace("$(POD_NAMESPACE)", choices.namespace) for word in arguments(choices)[1:]]
    settings = operator_command.settings_of(parser.parse_args([*words, "--service-address", "10.0.0.1"]))

    assert settings.namespace == choices.namespace
    assert settings.pods.installation.image == "i:1"
    assert (settings.scheduler.policy, settings.scheduler.max_load, settings.scheduler.available) == (
        "fulfillment",
        "0.5",
        "requests",
    )
    assert (settings.lease, settings.probes, settings.register_crds) == (9.0, ("", PROBE_PORT), False)
    assert settings.webhook == ("", WEBHOOK_PORT)
    assert settings.service is not None
    assert settings.service.port == SERVICE_PORT
    assert settings.own_brain
    assert "--brain" not in arguments(Choices(brain=False))


def test_the_job_service_is_where_pods_look_for_it() -> None:
    services = {body["metadata"]["name"]: body["spec"] for body in of_kind(manifests(Choices()), "Service")}
    assert "selector" not in services[SERVICE]
    (port,) = services[SERVICE]["ports"]
    assert (port["name"], port["port"]) == (PORT_NAME, SERVICE_PORT)


def test_rights_are_few_and_have_reasons() -> None:
    rights = [*cluster_rights("ml"), *own_rights()]
    assert all(right.why for right in rights)
    assert not any("*" in (*right.resources, *right.verbs, right.group) for right in rights)
    assert not any("secrets" in right.resources and {"list", "watch", "delete"} & set(right.verbs) for right in rights)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (Choices(namespace="No_Good"), "--namespace"),
        (Choices(image=""), "--image"),
        (Choices(cpu="much"), "--cpu"),
        (Choices(memory="1Gib"), "--memory"),
        (Choices(memory_limit=""), "--memory-limit"),
        (Choices(brain_storage="plenty"), "--brain-storage"),
        (Choices(max_load="2"), "--max-load"),
    ],
)
def test_choices_that_cannot_work_are_named(choices: Choices, words: str) -> None:
    (problem,) = problems(choices)
    assert problem.startswith(f"{words}")
    assert problems(Choices()) == []


def test_the_command_refuses_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--cpu", "much"]) == 1
    assert "edl: --cpu: 'much': wants a quantity" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["install", "--replicas", "0"])
    assert "wants 1 or more" in capsys.readouterr().err


def test_the_operator_sees_every_kind() -> None:
    seen = {(right.group, name) for right in cluster_rights("ml") for name in right.resources if "list" in right.verbs}
    assert {(resource_of(kind).group, resource_of(kind).plural) for kind in API_KINDS} <= seen


def test_what_monitors_ask_for_is_there() -> None:
    """Every metric in the dashboard is one that an operator shows; the monitor's port is one of the Service's."""
    objects = manifests(Choices(service_monitor=True, dashboard=True))
    (monitor,) = of_kind(objects, "ServiceMonitor")
    service = next(body for body in of_kind(objects, "Service") if body["metadata"]["name"] == "edl-operator")
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()

    (board,) = of_kind(objects, "ConfigMap")
    panels = json.loads(board["data"]["edl.json"])["panels"]
    asked = {name for panel in panels for name in re.findall(r"edl_\w+", panel["targets"][0]["expr"])}
    assert len(panels) >= 6
    assert asked <= shown_metrics(), "no such metric"


def shown_metrics() -> set[str]:
    registry = CollectorRegistry()
    client = Client(cast(Transport, None))
    CycleMetrics(registry)
    caches = Caches(client)
    registry.register(JobCollector(JobBook(caches.jobs), time.time))
    controller = Controller("c", [], cast(Any, None), workers=1)
    registry.register(RuntimeCollector([], [controller]))
    names = set()
    for family in registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names |= {family.name + suffix for suffix in suffixes}
    return names


def allowed() -> set[tuple[str, str, str]]:
    rights = [*cluster_rights("ml"), *own_rights()]
    return {(right.group, name, verb) for right in rights for name in right.resources for verb in right.verbs}


def test_every_cache_may_be_filled_and_every_child_be_made() -> None:
    """Whoever adds a cache or a kind of child adds the right to it, or operators never become ready."""
    caches = Caches(Client(cast(Transport, None)))
    for informer in caches.all:
        resource = informer.resource
        assert {(resource.group, resource.plural, verb) for verb in ("list", "watch")} <= allowed(), resource.plural
    ours = {kind.resource.plural for kind in KINDS}
    for resource in RESOURCES.values():
        verbs = () if resource.plural in ours else ("create", "get")
        assert {(resource.group, resource.plural, verb) for verb in verbs} <= allowed(), resource.plural
    for kind in KINDS:
        assert (kind.resource.group, f"{kind.resource.plural}/status", "patch") in allowed()
