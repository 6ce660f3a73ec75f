"""The registry of policies: one row adds a policy everywhere, and an unknown name is refused everywhere."""

import argparse
import json
from collections import defaultdict
from types import ModuleType
from typing import Any

import pytest

from edl.cli.commands.cluster import install
from edl.cli.commands.jobs import plan as plan_command
from edl.cli.commands.services import operator
from edl.cli.main import main
from edl.install.chart import chart
from edl.install.options import InstallOptions
from edl.install.problems import problems
from edl.operator.scheduling_loop import SchedulingLoop
from edl.scheduler.plan import plan
from edl.scheduler.policies.cfs import Cfs
from edl.scheduler.policies.registry import POLICIES
from edl.scheduler.settings import Settings
from edl.scheduler.unit import Unit
from tests.scheduler.makers import NOW, elastic_job, node, planned, snapshot, targets

KNOWN = "cfs, fulfillment, goodput"
COMMANDS = [install, operator, plan_command]


class LastByName(Cfs):
    """Serves the job whose name comes last in the alphabet."""

    name = "last-by-name"

    def serving_order(self, unit: Unit) -> tuple[Any, ...]:
        return tuple(-ord(letter) for letter in unit.facts.name)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    policy = LastByName()
    monkeypatch.setitem(POLICIES, policy.name, policy)
    return policy.name


def parsed(command: ModuleType, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.arguments(parser)
    return parser.parse_args(words)


def test_a_policy_is_chosen_by_its_name(toy: str) -> None:
    objects = node("n1", cpu=4), elastic_job("a", 1, 4), elastic_job("b", 1, 4)
    first, last = (targets(planned(*objects, policy=name, max_load="1")) for name in ("cfs", toy))
    assert first == {"a": 2, "b": 2}
    assert last == {"a": 1, "b": 3}
    assert planned(*objects, policy=toy).policy == toy


def test_every_policy_has_a_name_of_its_own() -> None:
    assert {name: policy.name for name, policy in POLICIES.items()} == {name: name for name in POLICIES}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_every_registered_policy(command: ModuleType, toy: str) -> None:
    assert parsed(command, "--policy", toy).policy == toy


@pytest.mark.parametrize("name", ["install", "operator", "plan"])
def test_commands_refuse_others_and_name_those_there_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--policy", "fair"])
    assert ended.value.code == 2
    said = capsys.readouterr().err.replace("'", "")
    assert "--policy" in said
    assert f"fair (choose from {KNOWN})" in said


def test_a_plan_refuses_others() -> None:
    with pytest.raises(ValueError, match=f"no scheduling policy 'fair'; known ones: {KNOWN}"):
        plan(snapshot(node("n1")), now=NOW, settings=Settings(policy="fair"))


def test_the_scheduling_loop_refuses_others_before_its_first_cycle() -> None:
    nothing: Any = None
    caches = argparse.Namespace(companions=defaultdict(object))
    with pytest.raises(ValueError, match=KNOWN):
        SchedulingLoop(caches, nothing, nothing, nothing, settings=Settings(policy="fair"))  # type: ignore[arg-type]  # never read


def test_an_installation_refuses_others() -> None:
    assert problems(InstallOptions(policy="fair")) == [
        f"--policy: there is no scheduling policy 'fair'; known ones: {KNOWN}"
    ]


def test_the_chart_allows_what_is_registered() -> None:
    schema = json.loads(chart()["values.schema.json"])
    assert schema["properties"]["policy"] == {"enum": [*POLICIES]}
