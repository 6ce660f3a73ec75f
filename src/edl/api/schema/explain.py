"""Reads data against a shape and says everything that is wrong with it, not only the first thing.

msgspec decodes good input; this runs when it could not. It also mends what it complains about (drops what is unknown,
puts a stand-in where something is required), so that the rest can be checked in the same run. `tainted` remembers
where, because what is said about a stand-in would be nonsense.
"""

import re
from typing import Any

from edl.api.schema.nearest import suggestion
from edl.api.schema.problem import MAX_PROBLEMS, Path, Problem
from edl.api.schema.shape import Shape

_WANTED = {
    "object": "an object (`name: value` lines)",
    "map": "an object (`name: value` lines)",
    "list": "a list",
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "quantity": "a quantity such as 500m, 2 or 1Gi",
    "priority": "Experiment, Offline, Normal, Production or a positive number",
    "template": "a pod template (an object with metadata and spec)",
    "anything": "an object (`name: value` lines)",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "map": (dict,),
    "list": (list, tuple),
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "quantity": (str, int, float),
    "priority": (str, int),
    "template": (dict,),
    "anything": (dict,),
}
_STAND_IN_TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "main"}]}}


class Explainer:
    """One reading of one object: `mended` is what is left of it, `problems` and `tainted` say why."""

    def __init__(self, value: Any, shape: Shape) -> None:
        self.problems: list[Problem] = []
        self.tainted: list[Path] = []
        self.mended: Any = self._read(value, shape, ())

    def _complain(self, at: Path, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(at, message))
        self.tainted.append(at)

    def _unknown(self, at: Path, name: str, shape: Shape) -> None:
        # Looking for the nearest name is dear, and nobody reads the hundredth.
        near = suggestion(name, shape.fields) if len(self.problems) < MAX_PROBLEMS else ""
        self._complain((*at, name), f"unknown field{near}")

    def _read(self, value: Any, shape: Shape, at: Path) -> Any:
        if shape.form == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)  # as API servers take it
        if message := _mismatch(value, shape):
            self._complain(at, message)
            return self._stand_in(shape, at)
        match shape.form:
            case "object":
                return self._read_object(value, shape, at)
            case "map":
                return self._read_map(value, shape, at)
            case "list":
                return [self._read(item, shape.of, (*at, index)) for index, item in enumerate(value)]
        return value

    def _read_object(self, value: dict[Any, Any], shape: Shape, at: Path) -> dict[str, Any]:
        mended: dict[str, Any] = {}
        for name, item in value.items():
            field = shape.fields.get(name)
            if field is None:
                if not shape.open:
                    self._unknown(at, str(name), shape)
            elif item is not None:
                before = len(self.tainted)
                mended[name] = self._read(item, field, (*at, name))
                if self.tainted[before:] == [(*at, name)] and name not in shape.required:
                    del mended[name]
        for name in shape.required:
            if name not in mended:
                mended[name] = self._missing(shape.fields[name], (*at, name))
        return mended

    def _missing(self, shape: Shape, at: Path) -> Any:
        self._complain(at, f"is required: {shape.description}" if shape.description else "is required")
        return self._stand_in(shape, at)

    def _stand_in(self, shape: Shape, at: Path) -> Any:
        match shape.form:
            case "object":
                return {name: self._stand_in(shape.fields[name], at) for name in shape.required}
            case "template":
                return _STAND_IN_TEMPLATE
            case "integer":
                return shape.minimum or 0
            case "choice":
                return shape.choices[0]
            case "number" | "priority":
                return 1
            case "boolean":
                return False
            case "list":
                return []
            case "map" | "anything":
                return {}
        return "?"

    def _read_map(self, value: dict[Any, Any], shape: Shape, at: Path) -> dict[str, Any]:
        mended = {}
        for name, item in value.items():
            if message := _mismatch(item, shape.of):
                self._complain((*at, str(name)), message)
            else:
                mended[str(name)] = self._read(item, shape.of, (*at, str(name)))
        return mended


def _mismatch(value: Any, shape: Shape) -> str | None:
    if shape.form == "choice":
        return _not_a_choice(value, shape)
    if not isinstance(value, _TYPES[shape.form]) or (isinstance(value, bool) and shape.form != "boolean"):
        return f"found {describe(value)}, wants {_WANTED[shape.form]}{_how_to_mend(value, shape)}"
    if isinstance(value, str):
        return _bad_text(value, shape)
    if isinstance(value, int) and shape.minimum is not None and value < shape.minimum:
        return f"{_number(value)} is less than {shape.minimum}, the least allowed"
    if isinstance(value, int) and shape.maximum is not None and value > shape.maximum:
        return f"{_number(value)} is more than {shape.maximum}, the most allowed"
    return None


def _bad_text(value: str, shape: Shape) -> str | None:
    if shape.min_length and not value:
        return "is empty"
    if shape.pattern and not re.search(shape.pattern, value):
        return f"{describe(value)} does not match {shape.pattern}"
    return None


def _not_a_choice(value: Any, shape: Shape) -> str | None:
    same_type = [choice for choice in shape.choices if type(choice) is type(value)]
    if value in same_type:
        return None
    choices = [str(choice) for choice in shape.choices]
    near = suggestion(value, choices) if isinstance(value, str) and same_type else ""
    hint = near if "did you mean" in near else ""
    return f"found {describe(value)}, wants one of {', '.join(choices)}{hint}"


def _how_to_mend(value: Any, shape: Shape) -> str:
    if shape.form == "text" and isinstance(value, float):
        return ": put it in quotes"  # what was written, 1.10 perhaps, is not known any more
    if shape.form == "text" and isinstance(value, bool | int):
        return f': write "{_literal(value)}"'
    if shape.form in ("integer", "number") and isinstance(value, str) and value.lstrip("-").isdecimal():
        return f": write {value[:20]} without quotes"
    if shape.form == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return f": write {value.lower()} without quotes"
    return ""


def describe(value: Any) -> str:
    """A value in a message, never longer than a line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return _literal(value)
    if isinstance(value, int | float):
        return f"number {_number(value)}"
    if isinstance(value, str):
        return f'text "{value if len(value) <= 60 else value[:57] + "..."}"'
    return "a list" if isinstance(value, list | tuple) else "an object"


def _literal(value: bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else _number(value)


def _number(value: int | float) -> str:
    # CPython refuses to print integers of more than 4,300 digits; nobody wants to read more than 20.
    return str(value) if abs(value) < 10**20 else "beyond 10^20"
