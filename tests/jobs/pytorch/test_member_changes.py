"""What a job's status and Events tell of changes of its members: which way, how long, what was lost and sent."""

import copy

from msgspec.structs import replace

from edl.api.status import MemberChange
from edl.cli.commands.jobs.describe import render
from edl.cli.connect.jobs import summarize
from edl.cli.output.live import changes
from edl.jobs.pytorch.kind import KIND
from tests.jobs.pytorch.world import PytorchWorld

JOINED = MemberChange(round=2, before=2, to=3, in_place=True, pause_seconds=0.214, steps_lost=0, bytes_sent=19_000_000)
TOLD = "workers 2 -> 3 in place: training stopped for 0.21 s, 0 steps lost, 19 MB sent"


def test_each_change_of_members_is_told_once() -> None:
    world = PytorchWorld()
    world.give(3)
    world.change = JOINED
    world.live()
    assert world.status["lastChange"]["pauseSeconds"] == 0.214
    assert world.status["lastChange"]["stepsLost"] == 0
    told = [event for event in world.events if event.startswith("MembersChanged")]
    assert told == [f"MembersChanged: {TOLD}"]
    world.live()
    world.change = None  # another leader, which has heard nothing
    world.live()
    assert world.status["lastChange"]["round"] == 2
    assert len([event for event in world.events if event.startswith("MembersChanged")]) == 1
    world.change = replace(JOINED, round=3, before=3, to=2, in_place=False, steps_lost=None, bytes_sent=0)
    world.live()
    assert world.events[-1] == "MembersChanged: workers 3 -> 2 by a restart: training stopped for 0.21 s"


def test_the_command_line_tells_of_it() -> None:
    world = PytorchWorld()
    world.give(3)
    assert world.job is not None
    before = summarize(KIND, copy.deepcopy(world.job))
    world.change = JOINED
    world.live()
    after = summarize(KIND, world.job)
    assert TOLD in changes(before, after)
    assert changes(after, after) == []
    assert "Changed:  workers 2 -> 3 in place: training stopped for 0.21 s" in render(after, [], [], world.now)
