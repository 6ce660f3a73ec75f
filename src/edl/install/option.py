"""One option of an installation, described once: command-line flag, chart value, schema and reference come from it.

An `Option` annotates a field of `InstallOptions`. It says what the option means and how it is written; whether options
fit together is decided in `problems`.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

Form = Literal["text", "number", "switch", "pairs", "words", "environment", "list", "map"]
"""How a value is written: `pairs` is a map of texts, `words` a list of them, `environment` Kubernetes' `env`, `list`
and `map` anything that Kubernetes defines."""


class Option(NamedTuple):
    """`text` is a sentence without its full stop. `pattern` limits a text, and `wants` says so in words."""

    group: str
    text: str
    metavar: str = "TEXT"
    choices: Collection[str] = ()
    pattern: str = ""
    wants: str = ""
    flag: str = ""
    """If it is not called like the field."""
    without: str = ""
    """What the flag that turns a switch off means."""
    reserved: Sequence[str] = ()
    """Keys of a map that are EDL's own."""


class Row(NamedTuple):
    """An option with its field's name, form and default."""

    field: str
    form: Form
    default: Any
    option: Option

    @property
    def value(self) -> str:
        """Its name in the chart and in a file of values."""
        first, *rest = self.field.split("_")
        return first + "".join(map(str.capitalize, rest))

    @property
    def flag(self) -> str:
        if self.option.flag:
            return self.option.flag
        negated = self.form == "switch" and self.default
        return f"--{'no-' if negated else ''}{self.field.replace('_', '-')}"


_FORMS: dict[Any, Form] = {str: "text", int: "number", bool: "switch"}
_CONTAINERS: dict[Any, Form] = {
    dict[str, str]: "pairs",
    list[str]: "words",
    list[dict[str, Any]]: "list",
    dict[str, Any]: "map",
}


def rows_of(struct: type[Any]) -> list[Row]:
    """The table of a struct's options, in the order of its fields."""
    defaults, found = struct(), []
    for field, hint in get_type_hints(struct, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            raise TypeError(f"{field} has no Option")
        kind, option = get_args(hint)[:2]
        form: Form = "environment" if field.endswith("env") else _FORMS.get(kind) or _CONTAINERS[kind]
        found.append(Row(field, form, getattr(defaults, field), option))
    return found


def is_structured(row: Row) -> bool:
    return isinstance(row.default, dict | list)
