"""NetworkPolicies of operators, Brain and the page: who may open a connection to which of their ports.

They restrict what comes in and nothing that goes out. A cluster whose network does not enforce them is none the worse:
every port asks for a credential anyway. Kubelets always reach the pods of their node, so probes need no rule.
"""

from typing import Any

from edl.api.labels import LABEL_UID
from edl.install.deployment import WEBHOOK_PORT
from edl.install.options import LABELS, NAME, SELECTOR, WEB, WEB_PORT, InstallOptions
from edl.operator.settings import BRAIN, BRAIN_PORT, SERVICE_PORT

Rule = dict[str, Any]
_BRAIN_SELECTOR = {"app.kubernetes.io/name": BRAIN}
_WEB_SELECTOR = {"app.kubernetes.io/name": WEB}


def network_policies(options: InstallOptions) -> list[dict[str, Any]]:
    operator = [_from([_job_pods(), *_api_servers(options)], SERVICE_PORT), _from(_api_servers(options), WEBHOOK_PORT)]
    made = [_policy(NAME, SELECTOR, [*operator, *_collectors(options, options.metrics_port)], options)]
    if options.brain:
        brain = [
            _from([_job_pods(), _operators(), *([_web()] if options.web else [])], BRAIN_PORT),
            *_collectors(options, BRAIN_PORT),
        ]
        made.append(_policy(BRAIN, _BRAIN_SELECTOR, brain, options))
    if options.web:  # for API servers' proxies, and for whatever serves an Ingress: nobody can say who that is
        made.append(_policy(WEB, _WEB_SELECTOR, [_from([], WEB_PORT)], options))
    return made


def _collectors(options: InstallOptions, port: int) -> list[Rule]:
    return [_from([_namespace(options.metrics_from)], port)] if options.metrics_from else []


def _job_pods() -> Rule:
    """In any namespace."""
    labelled = {"matchExpressions": [{"key": LABEL_UID, "operator": "Exists"}]}
    return {"namespaceSelector": {}, "podSelector": labelled}


def _operators() -> Rule:
    """They post the history."""
    return {"podSelector": {"matchLabels": SELECTOR}}


def _web() -> Rule:
    """It reads the history."""
    return {"podSelector": {"matchLabels": _WEB_SELECTOR}}


def _api_servers(options: InstallOptions) -> list[Rule]:
    """They are no pods that a selector could name; where their addresses are not given, none is ruled out."""
    return [{"ipBlock": {"cidr": options.api_server_cidr}}] if options.api_server_cidr else []


def _namespace(name: str) -> Rule:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _from(peers: list[Rule], port: int) -> Rule:
    """Without peers, from anywhere."""
    ports = [{"port": port, "protocol": "TCP"}]
    return {"from": peers, "ports": ports} if peers else {"ports": ports}


def _policy(name: str, selector: dict[str, str], rules: list[Rule], options: InstallOptions) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": options.namespace, "labels": LABELS},
        "spec": {"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"], "ingress": rules},
    }
