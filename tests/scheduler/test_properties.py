"""Properties of every plan, over ten thousand random clusters from seeds and over hypothesis's own."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.scheduler.plan import plan
from edl.scheduler.policies import registry
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import build_snapshot
from edl.scheduler.snapshot.objects import from_plain
from tests.scheduler.makers import NOW, Data, elastic_job, node, pod, training_job
from tests.scheduler.oracle import check
from tests.scheduler.random_worlds import world

CASES, CHUNK = 10_000, 500
POLICIES = tuple(registry.POLICIES)


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_ten_thousand_seeded_clusters(first: int) -> None:
    for seed in range(first, first + CHUNK):
        objects = from_plain(world(seed))
        chosen = Settings(policy=POLICIES[seed % len(POLICIES)], max_load="1" if seed % 3 else "0.97")
        result = plan(build_snapshot(objects), now=NOW, settings=chosen)
        try:
            check(objects, result, chosen)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {chosen.policy}: {error}") from error


_small = st.integers(1, 4)


@st.composite
def clusters(draw: st.DrawFn) -> list[Data]:
    objects: list[Data] = []
    for number in range(draw(st.integers(0, 4))):
        gpu = draw(st.sampled_from((0, 2, 4)))
        objects.append(node(f"n{number}", cpu=draw(st.integers(1, 12)), memory="16Gi", gpu=gpu))
    for number in range(draw(st.integers(0, 5))):
        least = draw(_small)
        most = least + draw(st.integers(0, 6))
        asked: dict[str, Any] = {"cpu": draw(st.sampled_from(("100m", 1, 2))), "gpu": draw(st.sampled_from((0, 0, 1)))}
        asked["age"] = draw(st.sampled_from((1, 400)))
        make = draw(st.sampled_from((elastic_job, training_job)))
        objects.append(make(f"j{number}", least, most, **asked))
    webs = draw(st.lists(st.tuples(_small, st.integers(0, 60)), max_size=3))
    return objects + [pod(f"web-{number}", cpu=cpu, refused=ago) for number, (cpu, ago) in enumerate(webs)]


@settings(max_examples=120, deadline=None)
@given(clusters(), st.sampled_from(POLICIES), st.randoms(use_true_random=False))
def test_every_plan_is_feasible_and_the_order_of_objects_means_nothing(
    objects: list[Data], policy: Any, chance: random.Random
) -> None:
    chosen = Settings(policy=policy, max_load="1")
    typed = from_plain(objects)
    result = plan(build_snapshot(typed), now=NOW, settings=chosen)
    check(typed, result, chosen)
    chance.shuffle(objects)
    assert plan(build_snapshot(from_plain(objects)), now=NOW, settings=chosen) == result
