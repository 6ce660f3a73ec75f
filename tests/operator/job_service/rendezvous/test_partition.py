"""Members that reach the job service but not each other: one side has to go, after which the others train."""

import pytest

from edl.operator.job_service.rendezvous.partition import Unreached
from edl.protocol.rendezvous import Waiting
from tests.operator.job_service.rendezvous.test_lobby_in_place import Living, living


def told(members: str, *pairs: str, rounds: int = 2) -> dict[str, str]:
    found = Unreached()
    for number in range(rounds):
        for pair in pairs:
            found.complain(pair[0], Waiting(number, "here", True, True, (pair[1],)), list(members))
    return found.shut_out(list(members))


@pytest.mark.parametrize(
    ("members", "pairs", "out"),
    [
        ("ab", ["ab"], "b"),
        ("ab", ["ab", "ba"], "b"),
        ("abc", ["ac", "bc"], "c"),
        ("abc", ["ab", "ac"], "a"),
        ("abcd", ["ac", "ad", "bc", "bd"], "cd"),
        ("abcd", ["ad"], "d"),
        ("abc", [], ""),
        ("abc", ["ax", "xa", "aa"], ""),
    ],
)
def test_those_go_whom_most_do_not_reach_and_all_who_stay_reach_each_other(
    members: str, pairs: list[str], out: str
) -> None:
    assert sorted(told(members, *pairs)) == list(out)


def test_once_may_be_chance() -> None:
    assert told("ab", "ab", rounds=1) == {}
    assert told("ab", "ab") == {"b": "b and a do not reach each other"}


def complain(world: Living, pod: str, of: str) -> None:
    world.state(pod).wait(f"{pod}:9", in_place=True, broken=True, unreached=(world.named(of),))
    world.report_changed(world.named(pod))
    world.settle()


def test_a_pod_that_others_do_not_reach_is_refused_and_they_train_on() -> None:
    world = living("a", "b", "c")
    complain(world, "c", "a")
    world.break_group("a", "b")
    assert world.members() == ["a", "b", "c"], "once may be chance"
    world.prepare("a", "b", "c")
    complain(world, "c", "a")
    world.break_group("a", "b")
    assert world.members() == ["a", "b"]
    assert "do not reach each other" in world.state("c").refused
    assert not world.state("a").refused
    world.prepare("a", "b")
    world.start("c")
    assert world.members() == ["a", "b", "c"], "its successor is another agent"
