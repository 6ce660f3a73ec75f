"""What is kept from cycle to cycle changes nothing: after any changes, the same snapshot and the same plan as anew."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.scheduler.memory import Memory
from edl.scheduler.plan import plan
from edl.scheduler.plan_cache import PlanCache
from edl.scheduler.policies import registry
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import SnapshotBuilder, build_snapshot
from edl.scheduler.snapshot.types import JobFacts, RoleFacts, Shape, Snapshot
from edl.scheduler.snapshot.versions import Versions
from tests.scheduler.changing_world import ChangingWorld
from tests.scheduler.makers import NOW

_POLICIES = tuple(registry.POLICIES)
_CALLED = ("pods_at", "roles_at", "roles")


def canonical(taken: Snapshot) -> dict[str, Any]:
    """All that a snapshot says, without the numbers of shapes, classes and counters, which are of no consequence."""
    return {
        "axes": (taken.axes.names, taken.axes.gpus),
        "nodes": [(one.name, one.capacity, one.used, one.free, one.gpu, one.refusal) for one in taken.nodes],
        "jobs": [_job(taken, one) for one in taken.jobs],
        "foreign": [
            (one.namespace, one.name, one.uid, one.owner, one.created, one.refused, _shape(taken, one.shape))
            for one in taken.foreign
        ],
        "terminating": sorted(
            (one.node, one.requests, one.limits, one.until, one.charges) for one in taken.terminating
        ),
        "quotas": [(one.namespace, one.quota, one.resource, one.hard, one.used) for one in taken.quota_lines],
        "committed": taken.committed,
        "bound_foreign": taken.bound_foreign,
        "problems": taken.problems,
    }


def _job(taken: Snapshot, facts: JobFacts) -> dict[str, Any]:
    fields = {name: getattr(facts, name) for name in JobFacts.__struct_fields__ if name not in _CALLED}
    fields["unbound"] = [[(pod.hint, pod.refused_since) for pod in pods] for pods in facts.unbound]
    sizes = range(facts.max + 2) if facts.roles else ()
    return fields | {
        "roles": [_role(taken, role) for role in facts.roles],
        "pods": [(facts.pods_at(size), dict(facts.roles_at(size))) for size in sizes],
    }


def _role(taken: Snapshot, role: RoleFacts) -> tuple[Any, ...]:
    given = _shape(taken, role.given) if role.given is not None else None
    return role.name, _shape(taken, role.shape), role.charges, role.problem, given


def _shape(taken: Snapshot, shape: Shape) -> tuple[Any, ...]:
    allowed = [taken.allowed[shape.node_match][node.kind] for node in taken.nodes]
    rules = sorted((rule.kind, *_counter(taken, rule.counter), rule.skew, rule.counts_itself) for rule in shape.rules)
    counted = sorted(_counter(taken, counter) for counter in shape.counted)
    plain = shape.requests, shape.needs, shape.limits, shape.gpus, shape.priority, shape.key
    return *plain, allowed, taken.excluded[shape.node_match], rules, counted


def _counter(taken: Snapshot, counter: int) -> tuple[Any, ...]:
    one = taken.counters[counter]
    return tuple(str(domain) for domain in one.domains), tuple(sorted(one.counts.items()))


def follow(seed: int, changes: list[int], policy: str) -> None:
    """One builder and one cache through all the changes, with the plan of each moment; beside it, everything anew."""
    changing, builder, cache = ChangingWorld(seed), SnapshotBuilder(), PlanCache()
    chosen, memory = Settings(policy=policy, max_load="1"), Memory()
    for step, several in enumerate([0, *changes]):
        for _ in range(several):
            changing.change()
        objects, now = changing.objects(), NOW + 20.0 * step
        kept, fresh = builder.build(objects), build_snapshot(objects)
        assert canonical(kept) == canonical(fresh), step
        made = plan(kept, memory, now=now, settings=chosen, cache=cache)
        anew = plan(fresh, memory, now=now, settings=chosen)
        assert made == anew, step
        if several < 4:  # else nothing is remembered of this plan, as if it had failed
            memory = made.memory


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 4), max_size=12), st.sampled_from(_POLICIES))
def test_after_any_changes_the_same_as_anew(seed: int, changes: list[int], policy: str) -> None:
    follow(seed, changes, policy)


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_long_stories(first: int) -> None:
    for seed in range(first, first + 25):
        follow(seed, [1 + seed % 3] * 25, _POLICIES[seed % len(_POLICIES)])


def test_a_build_that_fails_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from edl.scheduler.snapshot import builder as module

    changing, builder = ChangingWorld(3), SnapshotBuilder()
    builder.build(changing.objects())
    for _ in range(30):
        changing.change()
    objects = changing.objects()
    with monkeypatch.context() as broken:
        broken.setattr(module, "foreign_pods", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            builder.build(objects)
    assert canonical(builder.build(objects)) == canonical(build_snapshot(objects))


class _Thing:
    def __init__(self, name: str) -> None:
        self.name = name


_lists = st.lists(st.lists(st.integers(0, 11), max_size=8), max_size=6)


@settings(max_examples=300, deadline=None)
@given(_lists)
def test_versions_tell_what_is_gone_and_what_is_new(lists: list[list[int]]) -> None:
    """Twelve things of four names, listed in any order and any number of times."""
    things = [_Thing(str(number % 4)) for number in range(12)]
    versions: Versions[_Thing] = Versions(lambda thing: thing.name)
    held: set[_Thing] = set()
    for listed in lists:
        gone, new = versions.update(tuple(things[number] for number in listed))
        assert held.issuperset(gone)
        held -= set(gone)
        assert held.isdisjoint(new)
        held |= set(new)
        assert held == set({things[number].name: things[number] for number in listed}.values())
        assert held == set(versions)
