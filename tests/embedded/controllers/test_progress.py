"""Progress of a Deployment's roll: when it counts as given up, and what takes that back."""

from typing import Any

import msgspec

from edl.embedded.controllers.deployment_status import status_of
from edl.embedded.controllers.types import Deployment, ReplicaSet

NEW = msgspec.convert({"metadata": {"name": "d-new"}, "spec": {"replicas": 1}, "status": {"replicas": 1}}, ReplicaSet)
OLD = msgspec.convert(
    {
        "metadata": {"name": "d-old"},
        "spec": {"replicas": 3},
        "status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3},
    },
    ReplicaSet,
)


def _deployment(status: dict[str, Any], generation: int = 2) -> Deployment:
    spec = {"replicas": 4, "progressDeadlineSeconds": 1, "selector": {}, "template": {}}
    return msgspec.convert(
        {"metadata": {"name": "d", "generation": generation}, "spec": spec, "status": status}, Deployment
    )


def _reason(status: dict[str, Any]) -> str:
    return next(str(one["reason"]) for one in status["conditions"] if one["type"] == "Progressing")


def test_a_roll_that_stands_still_is_given_up_once_and_for_good() -> None:
    status, left = status_of(_deployment({}), NEW, [NEW, OLD], now=100.9)
    assert (_reason(status), left) == ("ReplicaSetUpdated", 1.0)
    status, left = status_of(_deployment(status), NEW, [NEW, OLD], now=101.9)
    assert (_reason(status), left) == ("ProgressDeadlineExceeded", None)
    again, left = status_of(_deployment(status), NEW, [NEW, OLD], now=101.95)
    assert again == status, "its own word is no progress"
    assert left is None


def test_another_version_is_progress() -> None:
    status, _ = status_of(_deployment({}), NEW, [NEW, OLD], now=100.9)
    status, _ = status_of(_deployment(status), NEW, [NEW, OLD], now=102.0)
    assert _reason(status) == "ProgressDeadlineExceeded"
    status, left = status_of(_deployment(status, generation=3), NEW, [NEW, OLD], now=110.0)
    assert (_reason(status), left) == ("ReplicaSetUpdated", 1.0)
