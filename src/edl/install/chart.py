"""The Helm chart, made of the very objects that `edl install` prints: they are built once with marks in the place of
the choices, and the marks become expressions. So the two cannot drift apart.

CRDs are templates that stay when the release goes (Helm never upgrades what is in a `crds` directory), and so does what
Brain has learned. The namespace is left out when the release itself lives in it, because Helm has made it then.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from edl import __version__
from edl.install.choices import Choices
from edl.install.manifests import Manifest, manifests
from edl.install.text import yaml_text
from edl.operator.settings import BRAIN

_COUNT = 987654321  # stands for `replicas`, the one choice that is a number
_OPTIONS = {
    "pull_policy": ["IfNotPresent", "Always", "Never"],
    "policy": ["cfs", "fulfillment"],
    "available": ["limits", "requests"],
}
COMMENTS = {
    "namespace": "Where everything goes. It is created, unless the release itself lives in it.",
    "image": "EDL's image, for operators and for jobs that bring none.",
    "pull_policy": "When nodes fetch it: IfNotPresent, Always or Never.",
    "pull_secret": "A Secret of the namespace to fetch it with, if need be.",
    "replicas": "Operators; one leads, the others wait with warm caches.",
    "policy": "How sizes are decided: cfs or fulfillment.",
    "max_load": "The share of the CPU that growth may use.",
    "available": "What counts as used: limits or requests.",
    "lease": "Seconds that a silent leader leads.",
    "cpu": "Requests of one operator.",
    "memory": "",
    "memory_limit": "Its limit; CPU has none, for an operator that is throttled loses its lease.",
    "create_namespace": "Create the namespace, with Pod Security set to restricted.",
    "crds": "Install and upgrade the kinds. They stay when the release goes.",
    "webhook": "Check jobs before they are stored.",
    "brain": "Brain, which advises EasyDL jobs, beside the operators.",
    "brain_storage": "The claim that its history lasts in, of the default class; '' : it goes with the pod.",
    "brain_database": "A Secret of the namespace whose url names a PostgreSQL that keeps the history instead.",
    "service_monitor": "For Prometheus' operator.",
    "dashboard": "For Grafana's sidecar.",
}
_CLAIMED = ".Values.brainStorage (not .Values.brainDatabase)"  # each of these
_KEPT = ("CustomResourceDefinition", "PersistentVolumeClaim")
_GUARDS = {
    f"Service {BRAIN}": ".Values.brain",
    f"Deployment {BRAIN}": ".Values.brain",
    "PersistentVolumeClaim": f"and .Values.brain {_CLAIMED}",
    "Namespace": "and .Values.createNamespace (ne .Release.Namespace .Values.namespace)",
    "CustomResourceDefinition": ".Values.crds",
    "ValidatingWebhookConfiguration": ".Values.webhook",
    "ServiceMonitor": ".Values.serviceMonitor",
    "ConfigMap": ".Values.dashboard",
}
# Lines that are there by choice, when they are, and what is in their place if not.
_CHOSEN = (
    (r" *imagePullSecrets:\n *- name: '@pullSecret@'\n", ".Values.pullSecret", ""),
    (r" *- --brain\n", ".Values.brain", ""),
    (r" *- name: EDL_BRAIN_DATABASE\n(?:.*\n){4}", ".Values.brainDatabase", ""),
    (
        r"( *)emptyDir: \{\}\n",
        f"not (and {_CLAIMED})",
        rf"\1persistentVolumeClaim:\n\1  claimName: {BRAIN}\n",
    ),
)
_NOTES = """EDL is in namespace {{ .Values.namespace }}:
  kubectl -n {{ .Values.namespace }} get pods
  kubectl get trainingjobs -A
{{- if and .Values.brain .Values.brainStorage (not .Values.brainDatabase) }}
Brain's history needs a default storage class. Is its pod pending? Have none kept: --set brainStorage=
{{- end }}
{{- if eq .Release.Namespace .Values.namespace }}
This chart did not make the namespace, so hold its pods to the restricted level yourself:
  kubectl label namespace {{ .Values.namespace }} pod-security.kubernetes.io/enforce=restricted
{{- end }}
"""


def write_chart(directory: Path) -> None:
    for name, text in chart().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def chart() -> dict[str, str]:
    """The text of every file, by its path in the chart."""
    files = {"Chart.yaml": _about(), "values.yaml": _values(), "values.schema.json": _schema()}
    for body in _objects():
        metadata = body["metadata"]
        name = f"templates/{body['kind'].lower()}-{metadata['name']}.yaml".replace(f"-{_mark('namespace')}", "")
        files[name] = _template(body)
    return files | {"templates/NOTES.txt": _NOTES}


def _objects() -> list[Manifest]:
    """Of all choices at once. A database and a claim exclude each other: the claim is of those without a database."""
    claimed = manifests(msgspec.structs.replace(_marked(), brain_database=""))
    return [*manifests(_marked()), *(body for body in claimed if body["kind"] == "PersistentVolumeClaim")]


def value_name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(map(str.capitalize, rest))


def _mark(field: str) -> str:
    return f"@{value_name(field)}@"


def _marked() -> Choices:
    marks: dict[str, Any] = {}
    for field, default in _defaults().items():
        marks[field] = True if isinstance(default, bool) else _COUNT if isinstance(default, int) else _mark(field)
    return Choices(**marks)


def _defaults() -> dict[str, Any]:
    defaults = Choices()
    return {field: getattr(defaults, field) for field in Choices.__struct_fields__}


def _template(body: Manifest) -> str:
    if body["kind"] in _KEPT:
        body = {**body, "metadata": {**body["metadata"], "annotations": {"helm.sh/resource-policy": "keep"}}}
    text = yaml_text([body]).removeprefix("---\n").replace("{{", '{{ "{{" }}')
    text = _expressions(_by_choice(text))
    guard = _GUARDS.get(f"{body['kind']} {body['metadata']['name']}") or _GUARDS.get(body["kind"])
    return f"{{{{- if {guard} }}}}\n{text}{{{{- end }}}}\n" if guard else text


def _by_choice(text: str) -> str:
    for lines, condition, otherwise in _CHOSEN:
        other = f"{{{{- else }}}}\n{otherwise}" if otherwise else ""
        chosen = rf"{{{{- if {condition} }}}}\n\g<0>{other}{{{{- end }}}}\n"
        text = re.sub(f"^{lines}", chosen, text, flags=re.MULTILINE)
    return text


def _expressions(text: str) -> str:
    return re.sub(r"@([a-zA-Z]+)@", r"{{ .Values.\1 }}", text).replace(str(_COUNT), "{{ .Values.replicas }}")


def _about() -> str:
    about = {
        "apiVersion": "v2",
        "name": "edl",
        "description": "Elastic deep learning: jobs grow into idle capacity, shrink for others, survive lost pods",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.32.0-0",
    }
    return yaml_text([about]).removeprefix("---\n")


def _values() -> str:
    lines = []
    for field, default in _defaults().items():
        lines += [f"# {COMMENTS[field]}"] if COMMENTS[field] else []
        lines.append(f"{value_name(field)}: {json.dumps(default)}")
    return "\n".join(lines) + "\n"


def _schema() -> str:
    """Helm refuses a value that is not one of these, rather than ignoring a slip of the pen."""
    properties: dict[str, Any] = {"global": {"type": "object"}}
    for field, default in _defaults().items():
        if isinstance(default, bool):
            allowed: dict[str, Any] = {"type": "boolean"}
        elif isinstance(default, int):
            allowed = {"type": "integer", "minimum": 1}
        else:
            allowed = {"enum": _OPTIONS[field]} if field in _OPTIONS else {"type": ["string", "number"]}
        properties[value_name(field)] = allowed
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return json.dumps(schema, indent=2) + "\n"
