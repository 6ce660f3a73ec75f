"""YAML bodies of requests. Refuses aliases (a few lines of them expand to gigabytes) and deep nesting."""

from typing import Any

import yaml

_DEEPEST = 200
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text cannot be read; the message is for the client."""


def load(body: bytes) -> Any:
    try:
        _inspect(body)
        return yaml.load(body, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise YamlError(f"error converting YAML to JSON: {error}") from None


def _inspect(body: bytes) -> None:
    depth = 0
    for event in yaml.parse(body, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise YamlError("error converting YAML to JSON: yaml: aliases are not accepted here")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > _DEEPEST:
                raise YamlError("error converting YAML to JSON: yaml: exceeded max depth")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
