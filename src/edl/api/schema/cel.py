"""The rules between fields as CEL, which API servers check. `edl.api.schema.rules` checks the same rules in Python.

Kubernetes bounds what a rule may cost; these compare numbers or short words and never loop.
"""

from typing import Any

from edl.api.kubernetes.names import JOB_NAME_GRAMMAR, JOB_NAME_MAX
from edl.api.schema.shape import Shape
from edl.api.schema.spec import AnyOf, NotMore, RequiredUnless, Rule, Unchanging

Validation = dict[str, Any]

JOB_NAME: Validation = {
    "rule": f"self.metadata.name.size() <= {JOB_NAME_MAX} && self.metadata.name.matches('{JOB_NAME_GRAMMAR}')",
    "message": f"metadata.name must be at most {JOB_NAME_MAX} lower case letters, digits and '-', begin with a letter "
    "and end with a letter or digit: pods and Services are named after it",
}


def validations(shape: Shape) -> list[Validation]:
    return [_validation(rule, shape) for rule in shape.rules]


def _validation(rule: Rule, shape: Shape) -> Validation:
    match rule:
        case NotMore():
            return _not_more(rule, shape)
        case AnyOf(fields):
            return {
                "rule": " || ".join(_given("self", field, shape) for field in fields),
                "message": f"{fields[0]} is required, unless {' or '.join(fields[1:])} says",
            }
        case RequiredUnless(field, other, values):
            words = "[" + ", ".join(f"'{value}'" for value in values) + "]"
            return {
                "rule": f"has({_name(field)}) || (has({_name(other)}) && {_name(other)} in {words})",
                "message": f"{field} is required unless {other} is {' or '.join(values)}",
            }
        case Unchanging(field, reason):
            old = _name(field, "oldSelf")
            return {
                "rule": f"!has({_name(field)}) || !has({old}) || {_name(field)} == {old}",
                "message": f"{field} cannot be changed: {reason}",
            }


def _not_more(rule: NotMore, shape: Shape) -> Validation:
    least, most = _name(rule.low), _name(rule.high)
    if rule.otherwise:
        most = f"({_given('self', rule.high, shape)} ? {most} : {_name(rule.otherwise)})"
    needed = (rule.low,) if rule.otherwise else (rule.low, rule.high)
    absent = [f"!{given}" for field in needed if (given := _given("self", field, shape)) != "true"]
    low, high = (field.rpartition(".")[2] for field in (rule.low, rule.high))
    return {
        "rule": " || ".join((*absent, f"{least} <= {most}")),
        "message": f"{low} is more than {high}",
        "fieldPath": _field_path(rule.low),
    }


def _given(root: str, path: str, shape: Shape) -> str:
    """`has(...)` of every step that may be absent; `true` if none may."""
    steps: list[str] = []
    walked: list[str] = []
    for name in path.split("."):
        walked.append(name)
        if name not in shape.required:
            steps.append(f"has({_name('.'.join(walked), root)})")
        shape = shape.fields[name]
    return f"({' && '.join(steps)})" if len(steps) > 1 else steps[0] if steps else "true"


def _field_path(path: str) -> str:
    return "".join(f"['{step}']" if "-" in step else f".{step}" for step in path.split("."))


def _name(path: str, root: str = "self") -> str:
    """CEL's own spelling of names that are no identifiers."""
    return ".".join(
        (root, *(step.replace("__", "__underscores__").replace("-", "__dash__") for step in path.split(".")))
    )
