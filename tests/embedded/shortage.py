"""A machine that lacks something to start containers with, on one of its nodes, for as long as a test says."""

import os
from functools import partial
from typing import Any

import pytest

from edl.embedded.node import node as node_module
from edl.embedded.node.pod import worker
from edl.embedded.node.pressure import Pressure
from edl.embedded.node.runtime import Runtime, StartError


class Shortage:
    """`number`: the error that every start on `node` ends with; None: they work. Pods that never ran are given back at
    once, and pressure is over soon after the shortage."""

    def __init__(self, patch: pytest.MonkeyPatch, node: str) -> None:
        self.number: int | None = None
        real = Runtime.run

        async def run(runtime: Runtime, launch: Any) -> Any:
            if self.number is not None and f"/pods/{node}/" in launch.log:
                raise StartError("create", f"fork: {os.strerror(self.number)}")
            return await real(runtime, launch)

        patch.setattr(Runtime, "run", run)
        patch.setattr(worker, "EVICT_SECONDS", 0.0)
        patch.setattr(node_module, "Pressure", partial(_brief, Pressure))


def _brief(kind: type[Pressure], *, hold: float, changed: Any) -> Pressure:
    return kind(hold=1.0, changed=changed)
