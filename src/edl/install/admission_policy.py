"""The admission policy of the operator's account: what it may write beyond what RBAC can tell apart.

RBAC grants verbs on kinds in namespaces. The policy adds whose objects they are: the operator writes only what belongs
to a job, nothing in `kube-*`, and in its own namespace only what is its own by name. It is always installed. API
servers enforce it, so that it holds for a stolen token too. It cannot limit reading, and a controller reference is
a claim that no API server checks: what a thief can make, it can make only where jobs may be.
"""

from typing import Any

from edl.install.options import LABELS, NAME, InstallOptions
from edl.install.permissions import namespace_permissions
from edl.jobs.registry import KINDS
from edl.operator.settings import WEBHOOK

_VERSION = "admissionregistration.k8s.io/v1"
_CONTROLLED = "{0} != null && has({0}.metadata.ownerReferences) && {0}.metadata.ownerReferences.exists(one, {1})"
_BATCH = "one.apiVersion == 'batch/v1' && one.kind == 'Job' && request.resource.resource == 'pods'"


def admission_policy(options: InstallOptions) -> list[dict[str, Any]]:
    name = options.cluster_name(NAME)
    metadata = {"name": name, "labels": LABELS}
    return [
        {
            "apiVersion": _VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [_everything()]},
                "matchConditions": [{"name": "of-the-operator", "expression": _of_operator(options)}],
                "variables": [{"name": name, "expression": text} for name, text in _variables(options).items()],
                "validations": [{"expression": text, "message": message} for text, message in _rules(options)],
            },
        },
        {
            "apiVersion": _VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _everything() -> dict[str, Any]:
    return {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def _of_operator(options: InstallOptions) -> str:
    return f"request.userInfo.username == 'system:serviceaccount:{options.namespace}:{options.service_account}'"


def _variables(options: InstallOptions) -> dict[str, str]:
    """`old` is what is there; one that lost its owner but names its job may be given it back, though not a Secret,
    which could be read in the answer."""
    groups = sorted({kind.group for kind in KINDS})
    kinds = [f"{kind.group}/{kind.name}" for kind in KINDS]
    controls = f"has(one.controller) && one.controller && (one.apiVersion.split('/')[0] + '/' + one.kind in {kinds}"
    controls += f" || ({_BATCH}))"
    orphan = "!has(oldObject.metadata.ownerReferences) || !oldObject.metadata.ownerReferences.exists(one, "
    orphan += "has(one.controller) && one.controller)"
    labelled = "has(oldObject.metadata.labels) && 'edl.dev/job-uid' in oldObject.metadata.labels"
    return {
        "own": f"request.resource.group in {groups}",
        "place": "has(request.namespace) ? request.namespace : ''",  # absent where an object is in none
        "home": f"variables.place == '{options.namespace}'",
        "name": "has(request.name) ? request.name : "
        "object != null && has(object.metadata) && has(object.metadata.name) ? object.metadata.name : ''",
        "about": "object != null && has(object.regarding) && has(object.regarding.apiVersion) && "
        f"object.regarding.apiVersion.split('/')[0] in {groups}",
        "new": "request.operation == 'DELETE' || (" + _CONTROLLED.format("object", controls) + ")",
        "old": "request.operation == 'CREATE' || (" + _CONTROLLED.format("oldObject", controls) + ") || "
        f"(request.operation == 'UPDATE' && request.resource.resource != 'secrets' && ({orphan}) && {labelled})",
        "event": "request.resource.group == 'events.k8s.io' && request.resource.resource == 'events'",
        "named": " || ".join(f"({text})" for text in _named(options)),
    }


def _named(options: InstallOptions) -> list[str]:
    """What is the operator's own, by its name: in its namespace, what its Role lets it write under a name."""
    owned = [one for one in namespace_permissions() if one.names and "update" in one.verbs]
    webhook = "request.resource.resource == 'validatingwebhookconfigurations'"
    reviews = "request.resource.resource in ['tokenreviews', 'subjectaccessreviews']"
    return [
        *(
            f"variables.home && request.resource.group == '{one.group}' && "
            f"request.resource.resource in {list(one.resources)} && variables.name in {list(one.names)}"
            for one in owned
        ),
        f"{webhook} && request.operation == 'UPDATE' && variables.name == '{options.cluster_name(WEBHOOK)}'",
        f"{reviews} && request.operation == 'CREATE'",
    ]


def _rules(options: InstallOptions) -> list[tuple[str, str]]:
    """In the order in which they should be told."""
    del options
    return [
        (
            "variables.own || !variables.place.startsWith('kube-')",
            "the operator writes nothing in kube-* namespaces; run the job in another one",
        ),
        (
            "variables.own || variables.named || variables.event || !variables.home",
            "in its own namespace the operator writes only what is its own by name; run the job in another one",
        ),
        (
            "variables.own || variables.named || (variables.event ? variables.about : variables.new && variables.old)",
            "the operator writes only objects whose controller is a job of EDL",
        ),
        (
            "request.resource.resource != 'secrets' || object == null || !has(object.type) || object.type == 'Opaque'",
            "the operator writes no Secret of a type that API servers fill, such as tokens of accounts",
        ),
    ]
