"""A container's environment, command and arguments, as Kubernetes defines them. Pure."""

import base64
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edl.embedded.node.pod.downward import field_text, resource_text
from edl.embedded.node.pod.inputs import ConfigurationError, PodInputs
from edl.embedded.node.pod.types import Container, KeyReference, Pod, ValueSource

INHERITED = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH", "REQUESTS_CA_BUNDLE",
    "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "CONDA_PREFIX", )  # fmt: skip
"""What a pod takes over from whoever started the node: enough to run their programs, none of their secrets."""

_REFERENCE = re.compile(r"\$(?:\$|\(([^()\s]*)\))")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class Image(NamedTuple):
    """What stands in for an image: a virtualenv, and what the image would have brought."""

    virtualenv: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: Mapping[str, str] = {}


def inherited(caller: Mapping[str, str], image: Image) -> dict[str, str]:
    """The part that an image would have: the caller's environment, with our own Python (or the image's) found first."""
    env = {name: caller[name] for name in INHERITED if name in caller}
    home = image.virtualenv or (sys.prefix if sys.prefix != sys.base_prefix else "")
    first = os.path.join(home, "bin") if home else os.path.dirname(sys.executable)
    env["PATH"] = os.pathsep.join([first, env.get("PATH", os.defpath)])
    if home:
        env["VIRTUAL_ENV"] = home
    env["PYTHONUNBUFFERED"] = "1"
    return {**env, **image.env}


def variables_of(container: Container, pod: Pod, inputs: PodInputs, base: Mapping[str, str]) -> dict[str, str]:
    """Later ones win: the base, services, envFrom in order, env in order. `$(NAME)` sees what came before it."""
    env = {**base, "HOSTNAME": pod.hostname, **inputs.variables}
    for many in container.env_from:
        config_map, secret = many.config_map_ref, many.secret_ref
        if config_map is not None:
            values = _config_map(inputs, pod, config_map)
        else:
            values = _secret(inputs, pod, secret) if secret is not None else {}
        env |= {many.prefix + key: value for key, value in values.items() if _NAME.fullmatch(many.prefix + key)}
    for variable in container.env:
        if variable.value_from is None:
            env[variable.name] = expand(variable.value, env)
            continue
        value = _value(variable.value_from, container, pod, inputs)
        if value is not None:
            env[variable.name] = value
    return env


def _value(source: ValueSource, container: Container, pod: Pod, inputs: PodInputs) -> str | None:
    if source.field_ref is not None:
        return field_text(pod, inputs, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        return resource_text(pod, inputs, container, source.resource_field_ref)
    if source.config_map_key_ref is not None:
        return _key(source.config_map_key_ref, _config_map(inputs, pod, source.config_map_key_ref), pod, "ConfigMap")
    if source.secret_key_ref is not None:
        return _key(source.secret_key_ref, _secret(inputs, pod, source.secret_key_ref), pod, "Secret")
    return None


def _key(reference: KeyReference, values: Mapping[str, str], pod: Pod, kind: str) -> str | None:
    if reference.key in values:
        return values[reference.key]
    if reference.optional:
        return None
    where = f"{kind} {pod.metadata.namespace}/{reference.name}"
    raise ConfigurationError(f"couldn't find key {reference.key} in {where}")


def _config_map(inputs: PodInputs, pod: Pod, reference: KeyReference) -> Mapping[str, str]:
    found = inputs.config_maps.get(reference.name)
    if found is not None:
        return found.data
    if reference.optional:
        return {}
    raise ConfigurationError(f'configmap "{reference.name}" not found')


def _secret(inputs: PodInputs, pod: Pod, reference: KeyReference) -> Mapping[str, str]:
    found = inputs.secrets.get(reference.name)
    if found is not None:
        return {key: base64.b64decode(value).decode(errors="surrogateescape") for key, value in found.data.items()}
    if reference.optional:
        return {}
    raise ConfigurationError(f'secret "{reference.name}" not found')


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the value if there is one, else stays; `$$` is a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] is None else env.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def command_of(container: Container, image: Image, env: Mapping[str, str]) -> Sequence[str]:
    """What to run: the container's command and arguments stand in place of the image's, as in Kubernetes."""
    if container.command:
        words = (*container.command, *container.args)
    else:
        words = (*image.command, *(container.args or image.args))
    if not words:
        raise ConfigurationError(
            f'no command specified: image "{container.image}" is only a name here. Give the container a command, '
            "or map the image to one in images.yaml"
        )
    return [expand(word, env) for word in words]
