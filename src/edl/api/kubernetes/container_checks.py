"""Checks what containers of a template are told and shown, environment and mounts, as Kubernetes and a runtime would.

Kubernetes sees a template when the first pod is made from it, which is too late to be told of a slip.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edl.api.schema.problem import Path, Problem


def container_problems(container: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """`container` as it was written; what is no list or object at all, others complain of."""
    for index, variable in enumerate(_items(container.get("env"))):
        yield from _variable(variable, (*at, "env", index))
    yield from mount_problems(container.get("volumeMounts"), (*at, "volumeMounts"))


def mount_problems(mounts: Any, at: Path) -> Iterator[Problem]:
    for index, mount in enumerate(_items(mounts)):
        path = mount.get("mountPath")
        if isinstance(path, str) and path and (problem := mount_path_problem(path, absolute=False)):
            yield Problem((*at, index, "mountPath"), problem)


def _variable(variable: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    name, value = variable.get("name"), variable.get("value")
    if not isinstance(name, str):
        yield Problem((*at, "name"), "is required: the name of the variable" if name is None else _no_text(name))
    elif not name or "=" in name:
        yield Problem((*at, "name"), f'"{name[:60]}": a name has at least one character, and no =')
    if value is not None and not isinstance(value, str):
        yield Problem((*at, "value"), _no_text(value))


def _no_text(value: object) -> str:
    if isinstance(value, bool):
        written = str(value).lower()
        return (
            f'wants text, found {written}: YAML reads true, yes and on (false, no, off) so; write "{written}" in quotes'
        )
    if isinstance(value, int | float):
        return f'wants text, found the number {value}; write "{value}" in quotes'
    return f"wants text, found {'a list' if isinstance(value, list) else 'an object'}"


def mount_path_problem(path: str, *, absolute: bool = True) -> str | None:
    if absolute and not path.startswith("/"):
        return f'"{path[:60]}" is not absolute; begin it with /'
    if not path.strip("/"):
        return f'"{path[:60]}" would hide everything that is in the image; name a directory, e.g. /data'
    if ":" in path:
        return f'"{path[:60]}" has a colon in it, which Kubernetes does not allow in a mount path; rename it'
    return None


def _items(items: Any) -> Sequence[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list | tuple) else ()
