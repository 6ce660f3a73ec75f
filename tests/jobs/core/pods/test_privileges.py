"""Pods of EDL's own image ask for no privilege and no token; those of users are as users want them."""

from typing import Any

import pytest

from edl.jobs.core.pods.privileges import unprivileged
from tests.jobs.test_second_reconcile import WORLDS

pytestmark = pytest.mark.case("attack-13")

OWN = "edl:1"
POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def spec(*images: str, **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": f"c{number}", "image": image} for number, image in enumerate(images)], **more}


def test_ours_are_restricted_and_the_argument_is_not_changed() -> None:
    given = spec(OWN, OWN, initContainers=[{"name": "i", "image": OWN}])
    made = unprivileged(given, OWN)
    assert made["securityContext"] == POD
    assert made["automountServiceAccountToken"] is False
    assert [one["securityContext"] for one in (*made["containers"], *made["initContainers"])] == [CONTAINER] * 3
    assert given == spec(OWN, OWN, initContainers=[{"name": "i", "image": OWN}])


@pytest.mark.parametrize("images", [("theirs",), (OWN, "theirs"), ("theirs", OWN)])
def test_with_an_image_of_the_user_s_it_is_theirs_to_say(images: tuple[str, ...]) -> None:
    assert unprivileged(spec(*images), OWN) == spec(*images)


def test_what_the_user_wrote_counts_more() -> None:
    given = spec(OWN, securityContext={"runAsUser": 0}, serviceAccountName="mine")
    given["containers"][0]["securityContext"] = {"privileged": True}
    assert unprivileged(given, OWN) == given
    assert unprivileged(spec(OWN, automountServiceAccountToken=True), OWN)["automountServiceAccountToken"] is True


def test_master_and_parameter_servers_of_a_job_are_ours() -> None:
    world = WORLDS["training"](0)
    world.live()
    for name in ("j-master", "j-pserver"):
        template = world.objects["ReplicaSet", name]["spec"]["template"]["spec"]
        assert template["securityContext"] == POD, name
        assert template["automountServiceAccountToken"] is False
