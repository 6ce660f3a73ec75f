"""Checks the rules between fields that the types declare. The CRDs state the same rules in CEL, see `crds`."""

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from edl.api.schema.problem import Path, Problem
from edl.api.schema.shape import shape_of
from edl.api.schema.spec import AnyOf, NotMore, RequiredUnless, Rule, Unchanging


def rule_problems(value: msgspec.Struct, at: Path) -> Iterator[Problem]:
    """Every broken rule in the struct and the structs inside it."""
    for rule in getattr(value, "RULES", ()):
        yield from _broken(rule, value, at)
    for name, inner in _inner(value):
        yield from rule_problems(inner, (*at, name))


def edit_problems(old: msgspec.Struct, new: msgspec.Struct, at: Path) -> Iterator[Problem]:
    """Every edit from `old` to `new` that cannot be honoured."""
    for rule in getattr(new, "RULES", ()):
        if isinstance(rule, Unchanging) and read(old, rule.field) != read(new, rule.field):
            yield Problem((*at, *rule.field.split(".")), f"cannot be changed: {rule.reason}")
    before = dict(_inner(old))
    for name, inner in _inner(new):
        if name in before:
            yield from edit_problems(before[name], inner, (*at, name))


def _inner(value: msgspec.Struct) -> Iterator[tuple[str, msgspec.Struct]]:
    for attribute, name in nested_structs(type(value)):
        inner = getattr(value, attribute)
        if inner is not None:
            yield name, inner


@functools.cache
def nested_structs(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Attribute and wire name of the fields that hold structs."""
    fields = shape_of(kind).fields
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return tuple((attribute, name) for attribute, name in names if fields[name].form == "object")


def _broken(rule: Rule, value: msgspec.Struct, at: Path) -> Iterator[Problem]:
    match rule:
        case NotMore(low, high, otherwise):
            name = high if read(value, high) is not None else otherwise or high
            least, most = read(value, low), read(value, name)
            if least is not None and most is not None and least > most:
                yield Problem((*at, *low.split(".")), f"{least} is more than {name.rpartition('.')[2]} {most}")
        case AnyOf([first, *others]):
            if all(read(value, field) is None for field in (first, *others)):
                yield Problem((*at, first), f"is required, unless {' or '.join(others)} says")
        case RequiredUnless(field, other, values):
            if read(value, field) is None and read(value, other) not in values:
                yield Problem((*at, field), f"is required unless {other} is {' or '.join(values)}")


def read(value: Any, path: str) -> Any:
    """The field at a path of wire names, None where anything on the way is absent."""
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, value.__struct_fields__[value.__struct_encode_fields__.index(name)])
    return value
