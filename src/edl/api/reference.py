"""The reference of the kinds as Markdown, from the same declarations as everything else: `edl crds -o markdown`."""

from collections.abc import Iterator

from edl.api.annotations import LEVELS
from edl.api.kinds import KINDS, Kind
from edl.api.shape import Shape, shape_of

_WORDS = {
    "text": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "quantity": "quantity",
    "priority": "level or number",
    "template": "pod template",
    "anything": "object",
}
_HEAD = """\
# The kinds

Made by `edl crds -o markdown`, from the types that decoding, defaults and the CRDs come from. `kubectl explain` says
the same, and of `status` too. Required fields are marked with *. Defaults are applied in memory and never written into
an object.

Annotations of any job:

| annotation | meaning |
|---|---|
| `edl.dev/priority` | LEVELS, or a positive number |
| `edl.dev/freezing-window` | time after a change of size without another one, e.g. `30s` |
| `edl.dev/pause: "true"` | keeps its present size |
| `edl.dev/pin: "true"` | has exactly the size that the user wrote |
| `edl.dev/sizes: "1,2,4,8"` | has no other sizes than these |
| `edl.dev/admission: create` | pods of a waiting job are made at once, so that a cluster autoscaler sees them |

`kubectl get edl` lists all kinds. Two are called ElasticJob: `kubectl get elasticjob` and `ptej` mean PyTorch's,
`easydljob` and `edlej` mean EasyDL's; `elasticjobs.GROUP` is clear in any case.
"""


def reference() -> str:
    levels = ", ".join(f"{name} {number}" for name, number in LEVELS.items() if name != "Experiement")
    return "\n".join([_HEAD.replace("LEVELS", levels), *(line for kind in KINDS for line in _kind(kind))])


def _kind(kind: Kind) -> Iterator[str]:
    shape = shape_of(kind.type)
    yield f"## {kind.name} (`{'`, `'.join(kind.api_versions)}`)"
    yield f"{shape.description} Short name `{kind.short_names[0]}`."
    yield ""
    yield "| field | what it is | meaning |"
    yield "|---|---|---|"
    for path, field, required in _fields(shape.fields["spec"], "spec"):
        yield f"| `{path}`{'*' if required else ''} | {_what(field)} | {field.description} |"
    yield ""


def _fields(shape: Shape, at: str) -> Iterator[tuple[str, Shape, bool]]:
    for name, field in shape.fields.items():
        path = f"{at}.{name}"
        yield path, field, name in shape.required
        inner = field.element if field.element is not None else field
        if inner.form == "object":
            yield from _fields(
                inner, f"{path}[]" if field.form == "list" else f"{path}.*" if field.form == "map" else path
            )


def _what(shape: Shape) -> str:
    match shape.form:
        case "object":
            return "object"
        case "list":
            return f"list of {_what(shape.of)}s"
        case "map":
            return f"names to {_what(shape.of)}"
        case "choice":
            return ", ".join(f"`{choice}`" for choice in shape.choices)
    bounds = f", {shape.minimum} or more" if shape.minimum else ""
    return f"{_WORDS[shape.form]}{bounds if shape.form == 'integer' else ''}"
