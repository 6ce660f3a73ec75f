"""A job's plans as `edl describe` and `edl brain show` print them."""

from edl.cli.commands.jobs.describe import _plans
from edl.cli.output.plan_history import history
from edl.protocol.job_facts import PlanRecord, ResourcePlan
from edl.protocol.resources import Resource, RolePlan
from edl.runtime.easydl_trainer.state import TrainerState, encode

EACH = Resource(cpu=1.0, memory=2048)
START = ResourcePlan("start-cold", "small", {"worker": RolePlan(2, EACH), "ps": RolePlan(1, EACH)})
TRIED = ResourcePlan(
    "workers-explore", "tried", {"worker": RolePlan(4, EACH)}, {"ps-0": Resource(cpu=2.0)}, 0.3, 1.0, 40.0
)
RISES = ResourcePlan("workers-curve", "rises", {"worker": RolePlan(8, EACH)}, {}, 0.3, 1.0, 60.0)
RECORDS = (
    PlanRecord(1, 1000.0, START, 0.0, 20.0, "safety"),
    PlanRecord(2, 1060.0, TRIED, 20.0, 30.0, "paid"),
    PlanRecord(3, 1120.0, RISES, 30.0, source="local"),
)


def test_a_table_and_bars() -> None:
    lines = history(RECORDS, 1180.0).splitlines()
    assert lines[0].split() == ["PLAN", "AGE", "SIZES", "EXPECTED", "OBTAINED", "VERDICT", "BY", "WHY"]
    assert "2 worker (1 cpu 2048 MiB), 1 ps (1 cpu 2048 MiB)" in lines[1]
    assert "4 worker (1 cpu 2048 MiB), ps-0 (2 cpu)" in lines[2]
    assert lines[3].split()[-6:] == ["60/s", "-", "open", "local", "workers-curve:", "rises"]
    assert lines[6:] == [
        "   1 ██████████                     20/s",
        "   2 ███████████████░░░░░           30/s",
        "   3 ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░",
    ]


def test_nothing_yet() -> None:
    assert history((), 0.0) == "no plan yet"
    assert "nothing was measured yet" in history((PlanRecord(1, 0.0, ResourcePlan("r", "w")),), 0.0)


def test_a_description_shows_what_the_trainer_keeps_and_leaves_out_what_it_cannot_read() -> None:
    shown = _plans(encode(TrainerState(plans=RECORDS)), 1180.0)
    assert shown.startswith("Plans\n  PLAN")
    assert "throughput by plan" in shown
    assert (_plans(None, 0.0), _plans(b"\x80", 0.0)) == ("", "")
