"""Inputs of a pod beside its spec (referenced objects, addresses, tokens): read first, so that the rest is pure."""

from collections.abc import Mapping

import msgspec

from edl.api.kubernetes.core import ConfigMap, Secret
from edl.embedded.node.pod.types import Container, KeyReference, Pod, ProjectedSource, TokenSource


class ConfigurationError(Exception):
    """The pod refers to something that is not there; the message is the kubelet's."""


class PodInputs(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` by audience and lifetime; `variables` are those of services; addresses are the pod's and the node's."""

    config_maps: Mapping[str, ConfigMap | None] = msgspec.field(default_factory=dict)
    secrets: Mapping[str, Secret | None] = msgspec.field(default_factory=dict)
    tokens: Mapping[TokenSource, str] = msgspec.field(default_factory=dict)
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    allocatable: Mapping[str, str | int | float] = msgspec.field(default_factory=dict)
    pod_ip: str = ""
    host_ip: str = ""


class References(msgspec.Struct):
    """The objects that a pod refers to."""

    config_maps: set[str] = msgspec.field(default_factory=set)
    secrets: set[str] = msgspec.field(default_factory=set)
    tokens: set[TokenSource] = msgspec.field(default_factory=set)


def references_of(pod: Pod) -> References:
    wanted = References()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        _of_container(container, wanted)
    for volume in pod.spec.volumes:
        for part in volume.files.sources if volume.files is not None else ():
            _of_part(part, wanted)
    return wanted


def _of_container(container: Container, wanted: References) -> None:
    for variable in container.env:
        source = variable.value_from
        if source is not None:
            _add(wanted.config_maps, source.config_map_key_ref)
            _add(wanted.secrets, source.secret_key_ref)
    for many in container.env_from:
        _add(wanted.config_maps, many.config_map_ref)
        _add(wanted.secrets, many.secret_ref)


def _add(names: set[str], reference: KeyReference | None) -> None:
    if reference is not None:
        names.add(reference.name)


def _of_part(part: ProjectedSource, wanted: References) -> None:
    if part.config_map is not None:
        wanted.config_maps.add(part.config_map.name)
    if part.secret is not None:
        wanted.secrets.add(part.secret.secret_name or part.secret.name)
    if part.service_account_token is not None:
        wanted.tokens.add(part.service_account_token)
