"""Changes of a pod that wait for more of their kind before the job is reconciled."""

from typing import Any

import msgspec
import pytest

from edl.api.kubernetes.core import Pod
from edl.operator.reconcile.caches import BATCH_WINDOW, batching_delay

RUNS: dict[str, Any] = {"running": {"startedAt": "2026-01-31T12:00:00Z"}}


def pod(phase: str, state: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    statuses = [{"name": "c", "state": state}] if state is not None else []
    body = {"metadata": {"name": "p", **metadata}, "status": {"phase": phase, "containerStatuses": statuses}}
    return msgspec.convert(body, Pod)


@pytest.mark.parametrize(
    ("old", "new", "waits"),
    [
        pytest.param(pod("Pending"), pod("Running", RUNS), True, id="it starts"),
        pytest.param(pod("Running", RUNS), pod("Running", RUNS), True, id="it runs on"),
        pytest.param(None, pod("Running", RUNS), False, id="it is new to us"),
        pytest.param(pod("Running", RUNS), pod("Running", {"terminated": {"exitCode": 1}}), False, id="it has ended"),
        pytest.param(
            pod("Pending"), pod("Pending", {"waiting": {"reason": "ErrImagePull"}}), False, id="it does not start"
        ),
        pytest.param(pod("Running", RUNS), pod("Failed"), False, id="it failed"),
        pytest.param(
            pod("Running", RUNS),
            pod("Running", RUNS, deletionTimestamp="2026-01-31T12:00:00Z"),
            False,
            id="it is asked to go",
        ),
        pytest.param(pod("Running", RUNS), None, False, id="it is gone"),
    ],
)
def test_pods_that_start_are_looked_at_in_flocks_and_trouble_at_once(
    old: Pod | None, new: Pod | None, waits: bool
) -> None:
    assert batching_delay(old, new) == (BATCH_WINDOW if waits else 0.0)
