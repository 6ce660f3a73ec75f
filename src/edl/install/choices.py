"""What an administrator may choose about an installation. `edl install` has an option for each, the chart a value."""

import msgspec

from edl import __version__
from edl.api.names import dns_label_problem
from edl.api.quantity import nano
from edl.api.roles import Installation
from edl.operator.settings import NAMESPACE
from edl.scheduler.settings import parse_load

NAME = "edl-operator"  # of everything that has no reason to be called otherwise
PART_OF = {"app.kubernetes.io/part-of": "edl"}
SELECTOR = {"app.kubernetes.io/name": NAME}
VERSION = {"app.kubernetes.io/version": __version__}
LABELS = {**SELECTOR, **VERSION, **PART_OF}


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = NAMESPACE
    image: str = Installation().image
    pull_policy: str = "IfNotPresent"
    pull_secret: str = ""
    replicas: int = 2
    policy: str = "cfs"
    max_load: str = "0.97"
    available: str = "limits"
    lease: str = "15"
    """Seconds that a silent leader leads."""
    cpu: str = "100m"
    memory: str = "256Mi"
    """Requests of one operator."""
    memory_limit: str = "1Gi"
    create_namespace: bool = True
    crds: bool = True
    webhook: bool = True
    brain: bool = True
    brain_storage: str = "1Gi"
    """A claim for its history; '': the history goes with the pod."""
    brain_database: str = ""
    """A Secret whose `url` names a PostgreSQL that keeps the history instead."""
    service_monitor: bool = False
    dashboard: bool = False


def problems(choices: Choices) -> list[str]:
    """Everything that is wrong with the choices, by the names of the options."""
    found = []
    if problem := dns_label_problem(choices.namespace):
        found.append(f"--namespace {choices.namespace}: {problem}")
    if not choices.image:
        found.append("--image: wants the name of EDL's image")
    for option in ("cpu", "memory", "memory_limit", "brain_storage"):
        try:
            if option != "brain_storage" or choices.brain_storage:
                nano(getattr(choices, option))
        except ValueError as error:
            found.append(f"--{option.replace('_', '-')}: {error}")
    try:
        parse_load(choices.max_load)
    except ValueError as error:
        found.append(f"--max-load: {error}")
    return found
