"""Whatever is known of a job, a decision is made, and a plan keeps its bounds."""

from typing import get_args, get_type_hints

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edl.brain.policy.decide import decide
from edl.brain.policy.past_jobs import PastJobs, summarise
from edl.brain.policy.rules import GROWTH_RULES
from edl.brain.policy.settings import DEFAULTS
from edl.brain.policy.startup import startup_plan
from edl.protocol.job_facts import (
    OOM,
    Capacity,
    Features,
    Incident,
    JobFacts,
    PlanRecord,
    PodUsage,
    ResourcePlan,
    Sample,
)
from edl.protocol.resources import EVALUATOR, SERVER, WORKER, Resource, RolePlan
from edl.runtime.easydl_trainer.plan_spec import check

COUNTS = st.integers(0, 12)
RESOURCES = st.builds(
    Resource,
    cpu=st.none() | st.floats(0.1, 32),
    memory=st.none() | st.integers(64, 65536),
    gpu=st.none() | st.integers(0, 8),
)
USES = st.builds(
    PodUsage, cpu=st.floats(0, 40), memory=st.integers(0, 70_000), cpu_limit=st.floats(0, 32), memory_limit=COUNTS
)
PODS = st.dictionaries(st.sampled_from(["worker-0", "worker-1", "ps-0", "ps-1", "evaluator-0"]), USES)
RATES = st.just(0.0) | st.floats(1e-6, 1e9)
FEATURES = st.builds(
    Features,
    strategy=st.sampled_from(["parameter_server", "ring-allreduce"]),
    program=st.sampled_from(["", "a", "b"]),
    records=RATES,
    gpu=st.integers(0, 8),
    evaluator=st.booleans(),
)
RULES = st.sampled_from([*GROWTH_RULES, "start-cold", "servers-cpu", "servers-count", "take-back", "oom"])
VERDICTS = st.sampled_from(get_args(get_type_hints(PlanRecord)["verdict"]))
INCIDENTS = st.builds(
    Incident,
    slot=st.sampled_from(["worker-0", "ps-0", "cat"]),
    reason=st.sampled_from([OOM, "Error"]),
    time=st.floats(0, 1500),
    memory=st.integers(0, 70_000),
)


@st.composite
def jobs(draw: st.DrawFn) -> JobFacts:
    """In order of time, as they come; the present is the last plan."""
    features = draw(FEATURES)
    served = features.strategy == "parameter_server"
    samples, plans, now = list[Sample](), list[PlanRecord](), 1000.0
    for _ in range(draw(st.integers(1, 4))):
        roles = {WORKER: RolePlan(draw(st.integers(1, 60)), draw(RESOURCES))}
        if served:
            roles[SERVER] = RolePlan(draw(st.integers(1, 15)), draw(RESOURCES))
        if features.evaluator:
            roles[EVALUATOR] = RolePlan(1, draw(RESOURCES))
        plan = ResourcePlan(draw(RULES), "made up", roles, gain=draw(st.floats(0, 4)))
        plans.append(PlanRecord(len(plans) + 1, now, plan, draw(RATES), verdict=draw(VERDICTS)))
        for _ in range(draw(st.integers(0, 4))):
            now += 30.0
            size = draw(st.sampled_from([roles[WORKER].replicas, 1, 7]))
            servers = roles[SERVER].replicas if served else 0
            samples.append(Sample(now, 25.0, size, draw(RATES), servers, draw(PODS)))
    incidents = draw(st.lists(INCIDENTS, max_size=3))
    return JobFacts(
        features=features,
        present=plans[-1].plan.roles,
        granted=draw(st.dictionaries(st.sampled_from([WORKER, SERVER]), COUNTS)),
        samples=tuple(samples),
        plans=tuple(plans),
        incidents=tuple(incidents),
        capacity=draw(st.none() | st.builds(Capacity, cpu=st.floats(0, 64), memory=st.integers(0, 10**6), gpu=COUNTS)),
        remaining=draw(RATES),
        pause=draw(st.floats(0, 100)),
        share=draw(st.none() | st.integers(0, 60)),
    )


def idle_server() -> JobFacts:
    """A parameter server that has next to nothing to do: what it could feed is beyond any number."""
    roles = {WORKER: RolePlan(1), SERVER: RolePlan(1)}
    record = PlanRecord(1, 1000.0, ResourcePlan("workers-explore", "made up", roles), 0.0, verdict="paid")
    use = {"ps-0": PodUsage(cpu=1e-308, memory=0, cpu_limit=5.0, memory_limit=0)}
    sample = Sample(1030.0, 25.0, 1, 1.0, 1, use)
    return JobFacts(features=Features("parameter_server"), present=roles, samples=(sample,), plans=(record,))


@example(idle_server())
@settings(max_examples=150)
@given(jobs())
def test_a_decision_is_always_made_and_keeps_its_bounds(facts: JobFacts) -> None:
    decision = decide(facts, 2000.0)
    assert decision.reason
    if decision.plan is None:
        return
    plan = msgspec.json.decode(msgspec.json.encode(decision.plan), type=ResourcePlan)
    assert plan == decision.plan, "it survives the wire"
    check(plan, facts.features, {})
    workers = plan.roles[WORKER].replicas
    assert workers <= max(DEFAULTS.max_workers, facts.present[WORKER].replicas)
    if SERVER in plan.roles:
        assert plan.roles[SERVER].replicas <= max(DEFAULTS.max_servers, facts.present[SERVER].replicas)
    assert set(plan.roles) == set(facts.present)
    assert 0 <= plan.confidence <= 1
    assert (plan.roles, plan.slots) != (facts.present, facts.slots)
    assert decide(facts, 2000.0) == decision, "the same facts, the same decision"


@settings(max_examples=50)
@given(jobs(), FEATURES)
def test_whatever_a_job_taught_the_next_one_gets_a_plan_that_can_be_followed(
    facts: JobFacts, features: Features
) -> None:
    summary = summarise("ns/past/u", facts, 2000.0, "succeeded", DEFAULTS)
    again = msgspec.json.decode(msgspec.json.encode(summary), type=type(summary))
    assert again == summary
    plan = startup_plan(features, PastJobs([again]).similar(features, DEFAULTS), facts.capacity, DEFAULTS)
    check(plan, features, {})
