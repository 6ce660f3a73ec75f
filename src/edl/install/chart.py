"""Generates the Helm chart from the objects that `edl install` prints: they are built once with markers in place of the
options, and the markers become template expressions. So the two cannot drift apart.

CRDs are templates that stay when the release goes (Helm never upgrades what is in a `crds` directory), and so does what
Brain has learned. The namespace is left out when the release itself lives in it, because Helm has made it then.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from edl import __version__
from edl.api.kubernetes import version
from edl.install.chart_refusal import OTHERS
from edl.install.deployment import apart
from edl.install.manifests import Manifest, manifests
from edl.install.option import Row, is_structured
from edl.install.options import NAME, WEB, InstallOptions, rows
from edl.install.permissions import JOBS_ROLE
from edl.install.server_budgets import SERVERS
from edl.install.text import yaml_text
from edl.install.values import schema, values_text
from edl.operator.settings import BRAIN, NAMESPACE

_NUMBERS = 987654000  # one above it for each choice that is a number
_CLUSTER_ROLE = f"templates/clusterrole-{NAME}.yaml"
_CLAIMED = ".Values.brainStorage (not .Values.brainDatabase)"  # each of these
_KEPT = ("CustomResourceDefinition", "PersistentVolumeClaim")
# Parts that may be left out, by the name that all their objects bear.
_PARTS = {BRAIN: ".Values.brain", WEB: ".Values.web"}
_GUARDS = {
    "ServiceAccount": ".Values.createServiceAccount",
    "Certificate": ".Values.certManagerIssuer",
    "PersistentVolumeClaim": _CLAIMED,
    "Namespace": "and .Values.createNamespace (ne .Release.Namespace .Values.namespace)",
    "CustomResourceDefinition": ".Values.crds",
    "ValidatingWebhookConfiguration": ".Values.webhook",
    "ServiceMonitor": ".Values.serviceMonitor",
    "PodMonitor": ".Values.podMonitor",
    "PrometheusRule": ".Values.alerts",
    "ConfigMap": ".Values.dashboard",
}
# Lines that are there by choice, when they are, and what is in their place if not.
_CHOSEN = (
    (r" *imagePullSecrets:\n *- name: '@pullSecret@'\n", ".Values.pullSecret", ""),
    (r" *namespaceSelector:\n *matchExpressions:\n(?:.*\n){3} *- '@namespaces@'\n", ".Values.namespaces", ""),
    (r" *- --brain\n", ".Values.brain", ""),
    (r" *- --brain-url=.*\n *- --brain-token=.*\n *- --brain-ca=.*\n", ".Values.brain", ""),
    (r" *- podSelector:\n *matchLabels:\n *app.kubernetes.io/name: edl-web\n", ".Values.web", ""),
    (r" *- --actions\n", ".Values.webActions", ""),
    (r" *- --log-format=@logFormat@\n", 'ne .Values.logFormat "text"', ""),
    (r" *- --verbose\n", ".Values.verbose", ""),
    (r" *- --share-history\n", ".Values.brainShareHistory", ""),
    (r"- apiGroups:\n(?:  .*\n)*?  - '@authoritySecret@'\n", ".Values.authoritySecret", ""),
    (
        r"( *)- from:\n *- ipBlock:\n *cidr: '@apiServerCidr@'\n *ports:\n",
        ".Values.apiServerCidr",
        r"\1- ports:\n",
    ),
    (r" *- ipBlock:\n *cidr: '@apiServerCidr@'\n(?= *ports:\n *- port: 8443)", ".Values.apiServerCidr", ""),
    (
        r" *- from:\n *- namespaceSelector:\n *matchLabels:\n.*'@metricsFrom@'\n *ports:\n *- port: .*\n.*\n",
        ".Values.metricsFrom",
        "",
    ),
    (r" *- name: EDL_BRAIN_DATABASE\n(?:.*\n){4}", ".Values.brainDatabase", ""),
    (
        r"( *)emptyDir: \{\}\n",
        f"not (and {_CLAIMED})",
        rf"\1persistentVolumeClaim:\n\1  claimName: {BRAIN}\n",
    ),
)
_HOME = "@namespace@"
_LEFT_OUT = "cpu|priorityClassName|serviceAccountName|storageClassName"  # fields that are not there if they are empty
# What is in the place of a map or list that is empty.
_INSTEAD = {"affinity": apart()}
# What names of objects that are in no namespace end in: `cluster_name` says the same.
_SUFFIX = f"""{{{{- define "edl.suffix" -}}}}
{{{{- if and .Values.namespaces (ne .Values.namespace "{NAMESPACE}") }}}}-{{{{ .Values.namespace }}}}{{{{ end -}}}}
{{{{- end -}}}}
"""
_NOTES = """EDL is in namespace {{ .Values.namespace }}:
  kubectl -n {{ .Values.namespace }} get pods
  kubectl get trainingjobs -A
{{- if and .Values.brain .Values.brainStorage (not .Values.brainDatabase) (not .Values.brainStorageClass) }}
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
    files = {
        "Chart.yaml": _about(),
        "values.yaml": values_text(),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
    }
    for body in _objects():
        files[_file_name(body)] = _template(body)
    for name, text in files.items():
        for part, value in ((JOBS_ROLE, "namespaces"), (SERVERS, "serverBudgets")):
            if f"-{part}." in name:
                files[name] = _for_each_namespace(text, value)
    files[_CLUSTER_ROLE] = _either(files[_CLUSTER_ROLE], _template(_cluster_role()))
    return files | {"templates/NOTES.txt": _NOTES, "templates/_suffix.tpl": _SUFFIX, "templates/others.yaml": OTHERS}


def _file_name(body: Manifest) -> str:
    """After the object's default name, except for the namespace, of which there is one."""
    kind, name = body["kind"].lower(), _default_name(body)
    defaults = {_mark(row): row.default for row in rows()}
    return f"templates/{kind}.yaml" if kind == "namespace" else f"templates/{kind}-{defaults.get(name, name)}.yaml"


def _default_name(body: Manifest) -> str:
    name: str = body["metadata"]["name"]
    return name.removesuffix(f"-{_HOME}")


def _for_each_namespace(text: str, value: str) -> str:
    own = text.replace(f"'{{{{ .Values.{value} }}}}'", "'{{ . }}'").replace(".Values.", "$.Values.")
    return f'{{{{- if .Values.{value} }}}}\n{{{{- range splitList "," .Values.{value} }}}}\n---\n{own}' + (
        "{{- end }}\n{{- end }}\n"
    )


def _either(limited: str, whole: str) -> str:
    return f"{{{{- if .Values.namespaces }}}}\n{limited}{{{{- else }}}}\n{whole}{{{{- end }}}}\n"


def _cluster_role() -> Manifest:
    """Of an operator that looks after jobs everywhere."""
    everywhere = manifests(msgspec.structs.replace(_marked(), namespaces=""))
    return next(body for body in everywhere if (body["kind"], body["metadata"]["name"]) == ("ClusterRole", NAME))


def _objects() -> list[Manifest]:
    """Of all options at once. A database and a claim exclude each other: the claim is of those without a database."""
    claimed = manifests(msgspec.structs.replace(_marked(), brain_database=""))
    return [*manifests(_marked()), *(body for body in claimed if body["kind"] == "PersistentVolumeClaim")]


def _mark(row: Row) -> str:
    return f"@{row.value}@"


def _marked() -> InstallOptions:
    """Every option set, to something that can be found again in the objects."""
    return InstallOptions(**{row.field: _marker(number, row) for number, row in enumerate(rows())})


def _marker(number: int, row: Row) -> Any:
    if is_structured(row):
        return {_mark(row): ""} if isinstance(row.default, dict) else [_mark(row)]
    return {"switch": True, "number": _NUMBERS + number}.get(row.form, _mark(row))


def _template(body: Manifest) -> str:
    if body["kind"] in _KEPT:
        body = {**body, "metadata": {**body["metadata"], "annotations": {"helm.sh/resource-policy": "keep"}}}
    text = yaml_text([body]).removeprefix("---\n").replace("{{", '{{ "{{" }}')
    text = _expressions(_with_maps_and_lists(_by_choice(text)))
    guard = _guard(body["kind"], _default_name(body))
    return f"{{{{- if {guard} }}}}\n{text}{{{{- end }}}}\n" if guard else text


def _guard(kind: str, name: str) -> str:
    """What must be wanted for an object to be there: its part, and itself."""
    own = None if (kind, name) == ("ServiceAccount", WEB) else _GUARDS.get(kind)  # that one is always made
    wanted = [found for found in (_PARTS.get(name), own) if found]
    return f"and {' '.join(wanted)}" if len(wanted) > 1 else "".join(wanted)


def _by_choice(text: str) -> str:
    for lines, condition, otherwise in _CHOSEN:
        other = f"{{{{- else }}}}\n{otherwise}" if otherwise else ""
        chosen = rf"{{{{- if {condition} }}}}\n\g<0>{other}{{{{- end }}}}\n"
        text = re.sub(f"^{lines}", chosen, text, flags=re.MULTILINE)
    return _without_defaults(_each(_each(text, "pullSecret", "- name: "), "namespaces", "- "))


def _each(text: str, value: str, before: str) -> str:
    """A line for each of the names that an option has with commas between them."""
    each = rf"""{{{{- range splitList "," .Values.{value} }}}}\n\1{before}'{{{{ . }}}}'\n{{{{- end }}}}\n"""
    return re.sub(rf"^( *){before}'@{value}@'\n", each, text, flags=re.MULTILINE)


def _without_defaults(text: str) -> str:
    """Lines that hold one option, and are there only if it is set: to anything, or to another number than its own."""
    for number, row in enumerate(rows()):
        if row.form == "number":
            line, condition = rf"- --quota-\w+={_NUMBERS + number}", f"ne (int .Values.{row.value}) {row.default}"
        elif row.default == "":
            line = rf"(?:- --[\w-]+={_mark(row)}|(?:{_LEFT_OUT}): '{_mark(row)}')"
            condition = f".Values.{row.value}"
        else:
            continue
        chosen = rf"{{{{- if {condition} }}}}\n\g<0>{{{{- end }}}}\n"
        text = re.sub(rf"^ *{line}\n", chosen, text, flags=re.MULTILINE)
    return text


def _with_maps_and_lists(text: str) -> str:
    """A field that holds nothing but the option goes with it; what is added to a map or list goes alone."""
    names = "|".join(row.value for row in rows() if is_structured(row))
    marked = rf"(?P<indent> *)(?:- '@(?P<item>{names})@'|'@(?P<key>{names})@': '')\n"
    whole = re.compile(rf"^(?P<field> *[\w.]+:\n){marked}", re.MULTILINE)
    added = re.compile(rf"^(?P<field>){marked}", re.MULTILINE)
    return added.sub(_structured, whole.sub(_structured, text))


def _structured(match: re.Match[str]) -> str:
    value, indent = match["item"] or match["key"], match["indent"]
    otherwise = ""
    if value in _INSTEAD:
        lines = yaml_text([_INSTEAD[value]]).removeprefix("---\n").splitlines(keepends=True)
        otherwise = f"{{{{- else }}}}\n{match['field']}" + "".join(indent + line for line in lines)
    text = f"{{{{- with .Values.{value} }}}}\n{match['field']}{{{{ toYaml . | indent {len(indent)} }}}}\n"
    return f"{text}{otherwise}{{{{- end }}}}\n"


def _expressions(text: str) -> str:
    text = text.replace(f"-{_HOME}", '{{ include "edl.suffix" . }}').replace(
        "@@imageDigest@", "{{ with .Values.imageDigest }}@{{ . }}{{ end }}"
    )
    for number, row in enumerate(rows()):
        text = text.replace(str(_NUMBERS + number), f"{{{{ int .Values.{row.value} }}}}")
    return re.sub(r"@([a-zA-Z]+)@", r"{{ .Values.\1 }}", text)


def _about() -> str:
    about = {
        "apiVersion": "v2",
        "name": "edl",
        "description": "Elastic deep learning: jobs grow into idle capacity, shrink for others, survive lost pods",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">={version.oldest()}.0-0",
    }
    return yaml_text([about]).removeprefix("---\n")
