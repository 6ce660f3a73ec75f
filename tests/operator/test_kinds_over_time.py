"""Kinds of another version than the operator's: what older ones lack is told, by whichever way it may look."""

import copy
import logging
from typing import Any

import pytest

from edl.jobs.crds import crds
from edl.operator.crds import check_kinds, register_crds
from edl.operator.resources import CRDS
from tests.operator.stage import stage

Data = dict[str, Any]
JOBS = "trainingjobs.paddlepaddle.org"


def older() -> list[Data]:
    """The kinds without a field that came later."""
    made = copy.deepcopy(crds())
    for body in made:
        if body["metadata"]["name"] == JOBS:
            for version in body["spec"]["versions"]:
                del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["fault_tolerant"]
    return made


@pytest.mark.parametrize("look", [check_kinds, register_crds], ids=["as installed", "as on a laptop"])
async def test_an_operator_says_what_older_kinds_lack(look: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with stage() as scene:
        for body in older():
            await scene.client.create(CRDS, body)
        with caplog.at_level(logging.WARNING, "edl.operator.crds"):
            await look(scene.client)
        assert f"{JOBS} is older than this operator" in caplog.text
        assert "v1.spec.fault_tolerant" in caplog.text


async def test_it_says_nothing_of_its_own_kinds_and_does_not_mind_that_there_are_none_yet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with stage() as scene:
        with caplog.at_level(logging.WARNING, "edl.operator.crds"):
            await check_kinds(scene.client)
            assert "does not serve" in caplog.text
            caplog.clear()
            await register_crds(scene.client)
            await check_kinds(scene.client)
        assert caplog.text == ""
