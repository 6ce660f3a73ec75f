"""Reads the features of a job off its spec: its strategy, its command line, its image.

A number in a command line changes how long a job trains, hardly what it needs, so the program is the command without
its numbers; batch size and epochs are picked up by the names that scripts commonly give them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edl.protocol.job_facts import ALLREDUCE, PARAMETER_SERVER, Features

NUMBER = re.compile(r"^[-+]?\d+(\.\d+)?(e[-+]?\d+)?$", re.I)
FLAGS = {
    "batch": ("batch_size", "batch", "minibatch", "per_device_batch_size"),
    "epochs": ("epochs", "num_epochs", "passes", "num_passes"),
    "records": ("records", "samples", "num_samples", "dataset_size"),
}
SHELL = ("sh", "bash", "/bin/sh", "/bin/bash")


def extract(job_spec: object, namespace: str) -> Features:
    """`job_spec` is the job's spec as its user wrote it; any part of it may be missing."""
    spec = _mapping(job_spec)
    container = _container(_mapping(spec.get("worker")))
    arguments = _command(container)
    allreduce = str(spec.get("distributionStrategy", "")).lower() in (ALLREDUCE, "allreducestrategy")
    return Features(
        strategy=ALLREDUCE if allreduce else PARAMETER_SERVER,
        program=" ".join(_without_numbers(arguments))[:500],
        image=str(container.get("image", ""))[:500],
        namespace=namespace[:500],
        gpu=_gpus(container),
        evaluator=bool(spec.get("evaluator")),
        **_flags(arguments),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _container(role: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = _mapping(_mapping(role.get("template")).get("spec")).get("containers")
    return _mapping(containers[0]) if isinstance(containers, list) and containers else {}


def _command(container: Mapping[str, Any]) -> list[str]:
    arguments = [str(argument) for part in ("command", "args") for argument in container.get(part) or ()]
    if len(arguments) > 2 and arguments[0] in SHELL:
        return " ".join(arguments[2:]).split()
    return arguments


def _without_numbers(arguments: Sequence[str]) -> list[str]:
    found = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not NUMBER.match(argument):
            found.append(name if equals and NUMBER.match(value) else argument)
    return found


def _flags(arguments: Sequence[str]) -> dict[str, float]:
    """--batch_size=32, --batch-size 32 and BATCH_SIZE=32 are all the batch size."""
    given: dict[str, str] = {}
    for argument, after in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, value = argument.partition("=")
        given[name.lstrip("-").replace("-", "_").lower()] = value if equals else after
    found = {}
    for feature, names in FLAGS.items():
        value = next((given[name] for name in names if NUMBER.match(given.get(name, ""))), "")
        if value and 0 <= float(value) <= 1e18:
            found[feature] = float(value)
    return found


def _gpus(container: Mapping[str, Any]) -> int:
    resources = _mapping(container.get("resources"))
    for part in ("limits", "requests"):
        for name, value in _mapping(resources.get(part)).items():
            if "gpu" in name and str(value).isdecimal():
                return min(int(str(value)), 1024)
    return 0
