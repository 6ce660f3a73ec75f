"""What running a pod needs to know beside the pod itself: gathered first, so that all that follows is pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edl.api.core import ConfigMap, Secret
from edl.embedded.node.pod import Container, KeyReference, Pod, ProjectedSource, TokenSource


class ConfigurationError(Exception):
    """The pod names something that is not there; the message says what, as the kubelet words it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`tokens` by audience and lifetime; `variables` are those of services; addresses are the pod's and the node's."""

    config_maps: Mapping[str, ConfigMap | None] = field(default_factory=dict)
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)
    tokens: Mapping[TokenSource, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str | int | float] = field(default_factory=dict)
    pod_ip: str = ""
    host_ip: str = ""


@dataclass(slots=True)
class Needs:
    """The objects that a pod refers to."""

    config_maps: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    tokens: set[TokenSource] = field(default_factory=set)


def needs_of(pod: Pod) -> Needs:
    needs = Needs()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        _of_container(container, needs)
    for volume in pod.spec.volumes:
        for part in volume.files.sources if volume.files is not None else ():
            _of_part(part, needs)
    return needs


def _of_container(container: Container, needs: Needs) -> None:
    for variable in container.env:
        source = variable.value_from
        if source is not None:
            _add(needs.config_maps, source.config_map_key_ref)
            _add(needs.secrets, source.secret_key_ref)
    for many in container.env_from:
        _add(needs.config_maps, many.config_map_ref)
        _add(needs.secrets, many.secret_ref)


def _add(names: set[str], reference: KeyReference | None) -> None:
    if reference is not None:
        names.add(reference.name)


def _of_part(part: ProjectedSource, needs: Needs) -> None:
    if part.config_map is not None:
        needs.config_maps.add(part.config_map.name)
    if part.secret is not None:
        needs.secrets.add(part.secret.secret_name or part.secret.name)
    if part.service_account_token is not None:
        needs.tokens.add(part.service_account_token)
