"""Write `types.txt`, the table of the built-in kinds' fields, from Kubernetes' published Go modules.

    python -m tests.conformance.refresh_types MODULES VERSION > src/edl/embedded/server/types/types.txt

MODULES is a Go module cache's `k8s.io` directory that holds `api`, `apimachinery` and `apiextensions-apiserver` of that
version. Only facts of the wire are taken: names, types, protobuf numbers, merge keys, enumerations, what is left out
when empty. `types.py` says how the table reads.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

GROUPS = {
    "meta": "apimachinery@{v}/pkg/apis/meta/v1",
    "core": "api@{v}/core/v1",
    "apps": "api@{v}/apps/v1",
    "batch": "api@{v}/batch/v1",
    "coordination": "api@{v}/coordination/v1",
    "discovery": "api@{v}/discovery/v1",
    "events": "api@{v}/events/v1",
    "rbac": "api@{v}/rbac/v1",
    "scheduling": "api@{v}/scheduling/v1",
    "policy": "api@{v}/policy/v1",
    "autoscaling": "api@{v}/autoscaling/v1",
    "authentication": "api@{v}/authentication/v1",
    "authorization": "api@{v}/authorization/v1",
    "apiextensions": "apiextensions-apiserver@{v}/pkg/apis/apiextensions/v1",
}
ROOTS = """
core.Binding core.ConfigMap core.Event core.LimitRange core.Namespace core.Node core.Pod core.ResourceQuota core.Secret
core.ServiceAccount core.Service apps.Deployment apps.ReplicaSet apps.StatefulSet batch.Job coordination.Lease
discovery.EndpointSlice events.Event rbac.ClusterRole rbac.ClusterRoleBinding rbac.Role rbac.RoleBinding
scheduling.PriorityClass policy.Eviction autoscaling.Scale authentication.TokenRequest authentication.TokenReview
authentication.SelfSubjectReview authorization.LocalSubjectAccessReview authorization.SelfSubjectAccessReview
authorization.SelfSubjectRulesReview authorization.SubjectAccessReview apiextensions.CustomResourceDefinition
meta.DeleteOptions meta.Status meta.ListMeta
"""
SCALARS = {"string", "int32", "int64", "bool", "float64", "bytes"}
SPECIAL = {
    "resource.Quantity": "quantity",
    "meta.Time": "time",
    "meta.MicroTime": "microtime",
    "meta.Duration": "string",
    "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "any",
    "meta.FieldsV1": "any",
    "apiextensions.JSON": "any",
    "types.UID": "string",
    "types.NodeName": "string",
    "rune": "int32",
    "int": "int64",
    "uint8": "int32",
    "uint16": "int32",
}
ALIASES = {"metav1": "meta", "v1": "core", "corev1": "core", "apiv1": "core", "autoscalingv1": "autoscaling"}
# JSON that is one of two types: their Go structs are not their wire form.
UNIONS = {"JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"}


@dataclass
class Declared:
    """One Go type: a struct with its field lines, or a name for something else."""

    group: str
    body: list[tuple[list[str], str]] = field(default_factory=list)
    alias: str = ""
    tags: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


def declarations(group: str, directory: Path) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    constants: list[tuple[str, str]] = []
    for file in sorted(directory.glob("*types*.go")):
        if not file.name.endswith("_test.go"):
            _scan(group, file.read_text(), found, constants)
    for name, value in constants:
        if f"{group}.{name}" in found:
            found[f"{group}.{name}"].values.append(value)
    return found


def _scan(group: str, text: str, found: dict[str, Declared], constants: list[tuple[str, str]]) -> None:
    constants.extend(re.findall(r'^\s*\w+\s+(\w+)\s*=\s*"([^"]*)"', text, re.MULTILINE))
    constants.extend(re.findall(r'^const \w+\s+(\w+)\s*=\s*"([^"]*)"', text, re.MULTILINE))
    comments: list[str] = []
    current: Declared | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("//"):
            comments.append(stripped.lstrip("/ "))
            continue
        if opened := re.match(r"type (\w+) struct \{", line):
            current = found.setdefault(f"{group}.{opened[1]}", Declared(group))
            current.tags = _tags(comments)
        elif empty := re.match(r"type (\w+) struct\{\}", line):
            found[f"{group}.{empty[1]}"] = Declared(group)
        elif alias := re.match(r"type (\w+) (\S+)$", line):
            found[f"{group}.{alias[1]}"] = Declared(group, alias=alias[2], tags=_tags(comments))
        elif line == "}":
            current = None
        elif current is not None and "`" in line:
            current.body.append((_tags(comments), stripped))
        elif not stripped:
            continue  # a blank line may stand between a comment's tags and what they are about
        comments = []


def _tags(comments: list[str]) -> list[str]:
    return [comment[1:] for comment in comments if comment.startswith("+")]


class Table:
    def __init__(self, types: dict[str, Declared]) -> None:
        self.types = types
        self.pending = ROOTS.split()
        self.seen: set[str] = set()
        self.enums: dict[str, list[str]] = {}

    def lines(self) -> Iterator[str]:
        structs: dict[str, list[str]] = {}
        while self.pending:
            name = self.pending.pop()
            if name not in self.seen:
                self.seen.add(name)
                structs[name] = self._struct(name)
        for name in sorted(self.enums):
            yield f"enum {name} {' '.join(self.enums[name])}"
        for name in sorted(structs):
            yield name + (" atomic" if "structType=atomic" in self.types[name].tags else "")
            yield from structs[name]

    def _struct(self, name: str) -> list[str]:
        declared = self.types[name]
        rows = []
        for tags, line in declared.body:
            row = self._field(declared.group, tags, line)
            if row:
                rows.append("  " + row)
        return rows

    def _field(self, group: str, tags: list[str], line: str) -> str:
        code, _, rest = line.partition("`")
        words, tag = code.split(), rest.partition("`")[0]
        json = re.search(r'json:"([^"]*)"', tag)
        proto = re.search(r'protobuf:"\w+,(\d+)', tag)
        number = proto[1] if proto else "0"
        name, *options = json[1].split(",") if json else [""]
        go = words[-1]
        if name == "-" or go.endswith("TypeMeta"):
            return ""
        if "inline" in options or not name:
            return f"... {self._type(group, go)} {number}"
        parts = [name, self._type(group, go), number]
        if "omitempty" not in options:
            parts.append("keep" if "optional" not in tags else "keep optional")
        if "omitzero" in options:
            parts.append("omitzero")
        return " ".join(parts + list(_marks(tags, tag)))

    def _type(self, group: str, go: str) -> str:
        if go.startswith("*"):
            return "*" + self._type(group, go[1:])
        if go == "[]byte":
            return "bytes"
        if go.startswith("[]"):
            return f"[{self._type(group, go[2:])}]"
        if mapping := re.match(r"map\[[\w.]+\](.*)", go):
            return f"{{{self._type(group, mapping[1])}}}"
        return self._named(group, go)

    def _named(self, group: str, go: str) -> str:
        if go in SCALARS:
            return go
        package, _, bare = go.rpartition(".")
        full = f"{ALIASES.get(package, package) or group}.{bare}"
        if full in SPECIAL or go in SPECIAL:
            return SPECIAL.get(full) or SPECIAL[go]
        if bare in UNIONS:
            self.pending.append("apiextensions.JSONSchemaProps")
            return bare
        declared = self.types[full]
        if not declared.alias:
            self.pending.append(full)
            return full
        if declared.alias == "string" and "enum" in declared.tags and declared.values:
            self.enums[full] = sorted(set(declared.values))
            return full
        return self._type(declared.group, declared.alias)


def _marks(tags: list[str], tag: str) -> Iterator[str]:
    keys = [text.partition("=")[2] for text in tags if text.startswith("listMapKey=")]
    for text in tags:
        name, _, value = text.partition("=")
        if name in ("listType", "mapType", "structType") and value in ("atomic", "set"):
            yield value
        elif name == "default" and value not in ("", "ref"):
            yield f"default={value}"
        elif name == "required":
            yield "required"
    if keys:
        yield f"keys={','.join(keys)}"
    merge = re.search(r'patchMergeKey:"(\w+)"', tag)
    strategy = re.search(r'patchStrategy:"([\w,]+)"', tag)
    if strategy:
        yield f"patch={strategy[1]}" + (f":{merge[1]}" if merge else "")


def main(modules: Path, version: str) -> None:
    types: dict[str, Declared] = {}
    for group, place in GROUPS.items():
        types |= declarations(group, modules / place.format(v=version))
    print(
        f"# The fields of the built-in kinds, from Kubernetes' Go modules {version}; made by "
        "tests/conformance/refresh_types.py."
    )
    for line in Table(types).lines():
        print(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
