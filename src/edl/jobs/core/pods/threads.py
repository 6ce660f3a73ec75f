"""Threads that a process of user code may start, from the CPU of its pod: its share of it, at least one.

Libraries for numbers start a thread for every core that they see, and a container sees all cores of its node: workers
that share a node then spend their time on waiting for each other. A template that sets one of the variables, or asks
for no CPU, is left alone. Nothing here limits anybody: the variables are advice that libraries follow.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from edl.api.kubernetes import quantity
from edl.jobs.core.pods.environment import Variable, variable
from edl.jobs.core.pods.torchrun import processes

NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What OpenMP (and with it PyTorch), MKL and OpenBLAS (and with it numpy) read when they are loaded."""

_FLAG = re.compile(r"--nproc[-_]per[-_]node(?:=(\S+))?")
_EACH_CORE = "cpu"  # torchrun's word for a process per core


def thread_limits(template: Mapping[str, Any], gpu_names: Iterable[str] = ()) -> list[Variable]:
    """The variables that limit the threads of each process of the template's first container."""
    container = template["spec"]["containers"][0]
    given = {one.get("name") for one in container.get("env") or ()}
    cores = _millicores(container.get("resources") or {})
    if cores is None or given.intersection(NAMES):
        return []
    share = max(1, cores // (1000 * _processes(template, gpu_names)))
    return [variable(name, share) for name in NAMES]


def _millicores(resources: Mapping[str, Any]) -> int | None:
    """The limit, which is all that it gets, else the request."""
    for part in ("limits", "requests"):
        value = (resources.get(part) or {}).get("cpu")
        if value is not None:
            return quantity.milli(value)
    return None


def _processes(template: Mapping[str, Any], gpu_names: Iterable[str]) -> int:
    """As torchrun counts them: its flag, else its variable, else one for each GPU."""
    container = template["spec"]["containers"][0]
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    set_by = {one.get("name"): one.get("value") for one in container.get("env") or ()}
    said = _flag(words) or str(set_by.get("PET_NPROC_PER_NODE") or "")
    if said == _EACH_CORE:
        return max(1, (_millicores(container.get("resources") or {}) or 0) // 1000)
    return int(said) if said.isdecimal() and len(said) < 6 and int(said) else processes(template, gpu_names)


def _flag(words: Sequence[Any]) -> str:
    """Of several the last one counts. A shell's line is one word with the flag in it."""
    found = ""
    parts = [part for word in words for part in str(word).split()]
    for part, following in pairwise([*parts, ""]):
        if match := _FLAG.fullmatch(part):
            found = match[1] or following
    return found
