"""The objects that `edl install` prints: complete, consistent with what the operator expects, and unprivileged."""

import json
import re
from argparse import ArgumentParser
from typing import Any, cast

import pytest
import yaml

from edl.api.kubernetes.names import dns_label_problem
from edl.brain import metrics as brain_metrics
from edl.cli.commands.services import operator as operator_command
from edl.cli.main import main
from edl.install.deployment import PROBE_PORT, WEBHOOK_PORT, arguments
from edl.install.manifests import manifests
from edl.install.options import METRICS_PORT, InstallOptions
from edl.install.permissions import cluster_permissions, namespace_permissions
from edl.install.problems import problems
from edl.jobs.crds import crds
from edl.jobs.registry import JOB_KINDS
from edl.jobs.registry import KINDS as API_KINDS
from edl.kube.rest.client import Client
from edl.kube.rest.transport import Transport
from edl.operator.job_service_host import PORT_NAME
from edl.operator.metrics.jobs import catalogue
from edl.operator.reconcile.action_runner import RESOURCES
from edl.operator.reconcile.caches import Caches
from edl.operator.resources import resource_of
from edl.operator.settings import SERVICE, SERVICE_PORT

Data = dict[str, Any]
NAMELESS = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Data]:
    assert main(["install", *words]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def of_kind(objects: list[Data], kind: str) -> list[Data]:
    return [body for body in objects if body["kind"] == kind]


def test_it_prints_what_is_made_of_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-n", "ml", "--image", "i:1", "--replicas", "3", "--policy", "fulfillment", "--memory-limit", "2Gi"]
    wanted = InstallOptions(namespace="ml", image="i:1", replicas=3, policy="fulfillment", memory_limit="2Gi")
    assert printed(capsys, *words) == manifests(wanted)
    assert printed(capsys) == manifests(InstallOptions())


def test_all_is_there_in_an_order_that_works() -> None:
    kinds = [body["kind"] for body in manifests(InstallOptions())]
    assert kinds[0] == "Namespace"
    assert kinds[1:5] == ["CustomResourceDefinition"] * 4
    assert kinds[-2:] == ["Deployment", "ValidatingWebhookConfiguration"]
    assert {"ServiceAccount", "Role", "ClusterRole", "Service", "PodDisruptionBudget"} < set(kinds)


def test_everything_bears_our_label_and_is_in_the_namespace() -> None:
    for body in manifests(InstallOptions(namespace="ml")):
        metadata = body["metadata"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "edl"
        assert metadata.get("namespace") == (None if body["kind"] in NAMELESS else "ml"), body["kind"]


def test_parts_can_be_left_out() -> None:
    bare = manifests(InstallOptions(create_namespace=False, crds=False))
    assert not of_kind(bare, "Namespace")
    assert not of_kind(bare, "CustomResourceDefinition")
    assert of_kind(manifests(InstallOptions()), "CustomResourceDefinition") == crds()


@pytest.mark.case("attack-13")
def test_operators_and_brain_have_no_privilege() -> None:
    (namespace,) = of_kind(manifests(InstallOptions()), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for deployment in of_kind(manifests(InstallOptions()), "Deployment"):
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
    choices = InstallOptions(image="i:1", policy="fulfillment", max_load="0.5", available="requests", lease="9")
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
    assert "--brain" not in arguments(InstallOptions(brain=False))


def test_the_job_service_is_where_pods_look_for_it() -> None:
    services = {body["metadata"]["name"]: body["spec"] for body in of_kind(manifests(InstallOptions()), "Service")}
    assert "selector" not in services[SERVICE]
    (port,) = services[SERVICE]["ports"]
    assert (port["name"], port["port"]) == (PORT_NAME, SERVICE_PORT)


@pytest.mark.case("attack-4")
def test_rights_are_few_and_have_reasons() -> None:
    permissions = [*cluster_permissions("ml"), *namespace_permissions()]
    assert all(permission.reason for permission in permissions)
    assert not any("*" in (*permission.resources, *permission.verbs, permission.group) for permission in permissions)
    assert not any(
        "secrets" in permission.resources and {"list", "watch", "delete"} & set(permission.verbs)
        for permission in permissions
    )


@pytest.mark.case("attack-4")
def test_the_admission_policy_lets_through_what_is_granted_by_name() -> None:
    """Two lists of names once: the policy refused the ConfigMap that the Role had granted."""
    (policy,) = of_kind(manifests(InstallOptions()), "ValidatingAdmissionPolicy")
    (named,) = [one["expression"] for one in policy["spec"]["variables"] if one["name"] == "named"]
    granted = [one for one in namespace_permissions(authority_secret="given") if one.names]
    for permission in granted:
        written = {"create", "update", "patch"} & set(permission.verbs)
        for name in permission.names:
            assert (f"'{name}'" in named) == bool(written), (permission.resources, name)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (InstallOptions(namespace="No_Good"), "--namespace"),
        (InstallOptions(image=""), "--image"),
        (InstallOptions(cpu="much"), "--cpu"),
        (InstallOptions(memory="1Gib"), "--memory"),
        (InstallOptions(memory_limit=""), "--memory-limit"),
        (InstallOptions(brain_storage="plenty"), "--brain-storage"),
        (InstallOptions(max_load="2"), "--max-load"),
    ],
)
def test_choices_that_cannot_work_are_named(choices: InstallOptions, words: str) -> None:
    (problem,) = problems(choices)
    assert problem.startswith(f"{words}")
    assert problems(InstallOptions()) == []


def test_the_command_refuses_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--cpu", "much"]) == 1
    assert "edl: --cpu: 'much': wants a quantity" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["install", "--replicas", "0"])
    assert "wants 1 or more" in capsys.readouterr().err


def test_the_operator_sees_every_kind() -> None:
    seen = {
        (permission.group, name)
        for permission in cluster_permissions("ml")
        for name in permission.resources
        if "list" in permission.verbs
    }
    assert {(resource_of(kind).group, resource_of(kind).plural) for kind in API_KINDS} <= seen


def test_what_monitors_ask_for_is_there() -> None:
    """Every metric in the dashboard is one that an operator shows; the monitor's port is one of the Service's."""
    objects = manifests(InstallOptions(service_monitor=True, dashboard=True))
    (monitor,) = [one for one in of_kind(objects, "ServiceMonitor") if one["metadata"]["name"] == "edl-operator"]
    service = next(body for body in of_kind(objects, "Service") if body["metadata"]["name"] == "edl-operator")
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()

    (board,) = of_kind(objects, "ConfigMap")
    panels = json.loads(board["data"]["edl.json"])["panels"]
    asked = {name for panel in panels for name in re.findall(r"edl_\w+", panel["targets"][0]["expr"])}
    assert len(panels) >= 6
    assert asked <= exposed_metrics(), "no such metric"


def exposed_metrics() -> set[str]:
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
    specs = [*catalogue(), *brain_metrics.METRICS]
    return {spec.name + suffix for spec in specs for suffix in suffixes.get(spec.type, [""])}


def allowed() -> set[tuple[str, str, str]]:
    permissions = [*cluster_permissions("ml"), *namespace_permissions()]
    return {
        (permission.group, name, verb)
        for permission in permissions
        for name in permission.resources
        for verb in permission.verbs
    }


def test_every_cache_may_be_filled_and_every_child_be_made() -> None:
    """Whoever adds a cache or a kind of child adds the permission to it, or operators never become ready."""
    caches = Caches(Client(cast(Transport, None)))
    for informer in caches.all:
        resource = informer.resource
        assert {(resource.group, resource.plural, verb) for verb in ("list", "watch")} <= allowed(), resource.plural
    ours = {resource_of(kind).plural for kind in JOB_KINDS}
    for resource in RESOURCES.values():
        verbs = () if resource.plural in ours else ("create", "get")
        assert {(resource.group, resource.plural, verb) for verb in verbs} <= allowed(), resource.plural
    for kind in JOB_KINDS:
        assert (resource_of(kind).group, f"{resource_of(kind).plural}/status", "patch") in allowed()


@pytest.mark.case("attack-13")
def test_only_job_pods_reach_the_job_service_and_with_operators_brain() -> None:
    policies = {
        body["metadata"]["name"]: body["spec"] for body in of_kind(manifests(InstallOptions()), "NetworkPolicy")
    }
    jobs = {"namespaceSelector": {}, "podSelector": {"matchExpressions": [_exists("edl.dev/job-uid")]}}
    operators = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "edl-operator"}}}
    brain = {"from": [jobs, operators], "ports": [{"port": 8500, "protocol": "TCP"}]}
    assert policies["edl-brain"]["ingress"] == [brain]
    service, webhook = policies["edl-operator"]["ingress"]
    assert service == {"from": [jobs], "ports": [{"port": SERVICE_PORT, "protocol": "TCP"}]}
    assert webhook == {"ports": [{"port": WEBHOOK_PORT, "protocol": "TCP"}]}, "who API servers are is not known"
    for name, spec in policies.items():
        assert spec["policyTypes"] == ["Ingress"]
        [chosen] = [
            body
            for body in of_kind(manifests(InstallOptions()), "Deployment")
            if spec["podSelector"]["matchLabels"].items() <= body["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert chosen["metadata"]["name"] == name


@pytest.mark.case("attack-13")
def test_api_servers_and_collectors_of_metrics_are_let_in_where_they_are_named() -> None:
    options = InstallOptions(api_server_cidr="10.0.0.0/24", metrics_from="monitoring", brain=False)
    (policy,) = of_kind(manifests(options), "NetworkPolicy")
    service, webhook, metrics = policy["spec"]["ingress"]
    servers = {"ipBlock": {"cidr": "10.0.0.0/24"}}
    assert servers in service["from"]
    assert webhook["from"] == [servers]
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert metrics["ports"] == [{"port": METRICS_PORT, "protocol": "TCP"}]
    assert problems(InstallOptions(api_server_cidr="10.0.0.1/24", metrics_from="A")) == [
        "--api-server-cidr: 10.0.0.1/24 has host bits set",
        f"--metrics-from A: {dns_label_problem('A')}",
    ]


def _exists(label: str) -> Data:
    return {"key": label, "operator": "Exists"}


@pytest.mark.case("attack-13")
def test_metrics_are_served_where_the_service_leads_and_collected_over_tls() -> None:
    objects = manifests(InstallOptions(service_monitor=True))
    (monitor,) = [one for one in of_kind(objects, "ServiceMonitor") if one["metadata"]["name"] == "edl-operator"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == "edl-operator.edl-system.svc"
    assert endpoint["bearerTokenFile"]
    services = {body["metadata"]["name"]: body["spec"] for body in of_kind(objects, "Service")}
    ports = {port["name"]: port["targetPort"] for port in services["edl-operator"]["ports"]}
    (operator,) = [one for one in of_kind(objects, "Deployment") if one["metadata"]["name"] == "edl-operator"]
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert named[ports["metrics"]] == METRICS_PORT
    assert f"--metrics=:{METRICS_PORT}" in container["args"]
