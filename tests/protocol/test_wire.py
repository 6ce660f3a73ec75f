"""Messages on the wire: each is exactly this JSON, and an older side that leaves fields out is understood."""

import re
from typing import Any

import msgspec
import pytest

from edl.protocol import tagged
from edl.protocol.errors import ErrorCode, JobServiceRefusal
from edl.protocol.job_state import JobView, RoleView, RoundView, SlotView
from edl.protocol.plans import (
    BrainAccess,
    ClusterCapacity,
    JobSpec,
    PlanAnswer,
    PlanWritten,
    PostedPlan,
    SlotUpdate,
)
from edl.protocol.pods import PodExit, PodListAnswer, PodReport, PodResources, ReportedUsage, UsageReport
from edl.protocol.progress import LastProgress, ProgressReport
from edl.protocol.rendezvous import (
    AGENT_REPORTS,
    SERVICE_MESSAGES,
    Change,
    Failed,
    FailureCause,
    Finished,
    Formed,
    Hello,
    Leaving,
    Over,
    Refused,
    Stale,
    Training,
    Wait,
    Waiting,
)
from edl.protocol.rounds import Member, Round
from edl.protocol.slots import Claim, Claimed, Slot

POD = PodReport(
    name="j-worker-0",
    role="worker",
    state="failed",
    node="n",
    address="j-worker-0.j:80",
    resources=PodResources(cpu=2.0, memory=512.0),
    started=1.5,
    exit=PodExit(137, "OOMKilled", ""),
    oom=True,
    usage=None,
)

MESSAGES: list[tuple[msgspec.Struct, str]] = [
    (Claim("p/1"), '{"holder":"p/1"}'),
    (Claim("p/1", "h:1", 2), '{"holder":"p/1","address":"h:1","wish":2}'),
    (Claimed(0, 3), '{"index":0,"epoch":3}'),
    (ProgressReport(throughput=2.5, pass_index=1, pod="p"), '{"throughput":2.5,"pass":1,"pod":"p"}'),
    (LastProgress(loss=0.5), '{"loss":0.5,"age":0.0}'),
    (
        JobView(phase="running", size=1, target=2, revision="r"),
        '{"phase":"running","size":1,"target":2,"roles":{},"leaving":[],"revision":"r"}',
    ),
    (
        JobView(
            phase="running",
            size=1,
            target=1,
            roles={"ps": RoleView(1, ["a"], {0: SlotView(epoch=1, holder="p/1", gone=False)})},
            leaving=["p"],
            round=RoundView(2, ["p"], False),
            revision="r",
            progress=LastProgress(done=1, age=0.5),
        ),
        '{"phase":"running","size":1,"target":1,'
        '"roles":{"ps":{"replicas":1,"addresses":["a"],"slots":{"0":{"epoch":1,"holder":"p/1","gone":false}}}},'
        '"leaving":["p"],"round":{"number":2,"pods":["p"],"over":false},"revision":"r",'
        '"progress":{"done":1,"age":0.5}}',
    ),
    (UsageReport("p", 0.5, 100), '{"pod":"p","cpu":0.5,"memory":100}'),
    (ReportedUsage(0.5, None, 1.0), '{"cpu":0.5,"memory":null,"age":1.0}'),
    (
        PodListAnswer([POD], "r"),
        '{"pods":[{"name":"j-worker-0","role":"worker","index":0,"attempt":0,"state":"failed","ready":false,'
        '"leaving":false,"node":"n","address":"j-worker-0.j:80","resources":{"cpu":2.0,"memory":512.0},"started":1.5,'
        '"exit":{"code":137,"reason":"OOMKilled","message":""},"oom":true,"reason":"","usage":null}],"revision":"r"}',
    ),
    (JobSpec({"worker": {}}, {}), '{"spec":{"worker":{}},"annotations":{}}'),
    (BrainAccess("http://b", "t"), '{"url":"http://b","token":"t","ca":"","logs":false}'),
    (PostedPlan({"worker": {"replicas": 2}}, "why"), '{"spec":{"worker":{"replicas":2}},"reason":"why"}'),
    (PostedPlan({}, "why", urgent=True), '{"spec":{},"reason":"why","urgent":true}'),
    (PlanWritten("j", 3, True), '{"name":"j","generation":3,"changed":true}'),
    (
        PlanAnswer(),
        '{"name":"","generation":0,"observed":0,"spec":null,"followed":false,"granted":{},"code":"","reason":"",'
        '"updates":[],"capacity":null,"revision":""}',
    ),
    (
        PlanAnswer(
            name="j",
            generation=2,
            observed=1,
            spec={"worker": {"replicas": 2}},
            followed=True,
            granted={"worker": 1},
            code="capacity",
            reason="why",
            updates=[SlotUpdate("j-ps-0", "replacing", "j-ps-0-1", "")],
            capacity=ClusterCapacity(7.5, 1024, 0),
            revision="r",
        ),
        '{"name":"j","generation":2,"observed":1,"spec":{"worker":{"replicas":2}},"followed":true,'
        '"granted":{"worker":1},"code":"capacity","reason":"why",'
        '"updates":[{"name":"j-ps-0","state":"replacing","pod":"j-ps-0-1","reason":""}],'
        '"capacity":{"cpu":7.5,"memory":1024,"gpu":0},"revision":"r"}',
    ),
    (JobServiceRefusal("gone", ErrorCode.NO_SUCH_JOB), '{"error":"gone","code":"no-such-job"}'),
    (
        JobServiceRefusal("late", ErrorCode.VERSION, version=0),
        '{"error":"late","code":"version","version":0}',
    ),
    (
        JobServiceRefusal("busy", ErrorCode.BUSY, retry_after=1),
        '{"error":"busy","code":"busy","retry_after":1}',
    ),
]


RENDEZVOUS: list[tuple[Any, str]] = [
    (
        Hello(agent="p/1", run="r", minimum=1, maximum=2, follows=True),
        '{"agent":"p/1","run":"r","minimum":1,"maximum":2,"window":3.0,"linger":0.3,"follows":true}',
    ),
    (Waiting(0, "h:1"), '{"type":"waiting","after":0,"endpoint":"h:1","in_place":false,"broken":false}'),
    (Training(1), '{"type":"training","round":1,"in_place":false,"ready":true,"idle":false}'),
    (
        Waiting(2, "h:1", True, True, ("q/1",)),
        '{"type":"waiting","after":2,"endpoint":"h:1","in_place":true,"broken":true,"unreached":["q/1"]}',
    ),
    (
        Training(2, in_place=True, change=Change(2, True, 0.25, 0, 9)),
        '{"type":"training","round":2,"in_place":true,"ready":true,"idle":false,'
        '"change":{"round":2,"in_place":true,"pause":0.25,"lost":0,"received":9}}',
    ),
    (Finished(1), '{"type":"finished","round":1}'),
    (
        Failed(1, True, 3, "no"),
        '{"type":"failed","round":1,"hard":true,"code":3,"message":"no"}',
    ),
    (Leaving("why"), '{"type":"leaving","reason":"why"}'),
    (
        Formed(Round("r", 1, (Member("p/1", "h:1"),))),
        '{"type":"formed","round":{"run":"r","number":1,"members":[{"agent":"p/1","endpoint":"h:1"}],"over":false,'
        '"in_place":false}}',
    ),
    (Stale(1, "why"), '{"type":"stale","round":1,"reason":"why"}'),
    (Wait("why"), '{"type":"wait","reason":"why","round":0}'),
    (FailureCause(1, False, "why"), '{"type":"verdict","round":1,"own":false,"reason":"why"}'),
    (Over(), '{"type":"over"}'),
    (Refused("why"), '{"type":"refused","reason":"why"}'),
]


@pytest.mark.parametrize(("message", "wire"), RENDEZVOUS, ids=lambda value: type(value).__name__)
def test_each_message_of_the_rendezvous_is_exactly_this_json(message: Any, wire: str) -> None:
    assert tagged.encode(message).decode() == wire
    kinds = {**AGENT_REPORTS, **SERVICE_MESSAGES}
    assert (tagged.decode_as(wire, Hello) if isinstance(message, Hello) else tagged.decode(wire, kinds)) == message


@pytest.mark.parametrize(
    ("wire", "wrong"),
    [
        ("", "Expecting value"),
        (b"\xff", "decode"),
        ("[" * 100_000, "recursion"),
        ("[]", "a JSON object"),
        ("{}", "type is None"),
        ('{"type":"resting"}', "type is 'resting', known are waiting"),
        ('{"type":["waiting"]}', "type is"),
        ('{"type":"waiting","after":1}', "Waiting.endpoint is missing"),
        ('{"type":"waiting","after":"1","endpoint":"h:1"}', "Waiting.after is str, it must be int"),
        ('{"type":"waiting","after":true,"endpoint":"h:1"}', "Waiting.after is bool, it must be int"),
        ('{"type":"waiting","after":1e99,"endpoint":"h:1"}', "Waiting.after is float"),
        ('{"type":"waiting","after":99999999999999999999,"endpoint":"h:1"}', "Waiting.after is too large"),
        ('{"type":"waiting","after":NaN,"endpoint":"h:1"}', "NaN is no number"),
        ('{"type":"formed","round":{"run":"r","number":1,"members":[{"agent":1}]}}', "members[0].agent is int"),
        ('{"type":"formed","round":7}', "Formed.round is int, it must be Round"),
    ],
)
def test_what_is_no_message_of_the_rendezvous_is_named(wire: bytes | str, wrong: str) -> None:
    with pytest.raises(tagged.UnreadableError, match=re.escape(wrong)):
        tagged.decode(wire, {**AGENT_REPORTS, **SERVICE_MESSAGES})


@pytest.mark.parametrize(
    ("wire", "understood"),
    [
        ('{"type":"waiting","after":0,"endpoint":"h:1"}', Waiting(0, "h:1")),
        ('{"type":"training","round":1}', Training(1)),
        ('{"type":"wait","reason":"why"}', Wait("why")),
        ('{"type":"formed","round":{"run":"r","number":1,"members":[]}}', Formed(Round("r", 1))),
    ],
)
def test_a_rendezvous_of_before_workers_lived_on_is_understood(wire: str, understood: Any) -> None:
    assert tagged.decode(wire, {**AGENT_REPORTS, **SERVICE_MESSAGES}) == understood


def test_a_greeting_of_another_version_is_read_as_far_as_it_is_known() -> None:
    wire = '{"agent":"p/1","run":"r","minimum":1,"maximum":2,"window":2,"colour":"red"}'
    assert tagged.decode_as(wire, Hello) == Hello(agent="p/1", run="r", minimum=1, maximum=2, window=2.0)
    with pytest.raises(tagged.UnreadableError, match="window"):
        tagged.decode_as(wire.replace('"window":2', '"window":1e999'), Hello)


@pytest.mark.parametrize(("message", "wire"), MESSAGES, ids=lambda value: type(value).__name__)
def test_each_message_is_exactly_this_json(message: msgspec.Struct, wire: str) -> None:
    assert msgspec.json.encode(message).decode() == wire
    assert msgspec.json.decode(wire, type=type(message)) == message


@pytest.mark.parametrize(
    ("wire", "understood"),
    [
        ("{}", JobView()),
        ('{"roles": {"ps": {}}, "news": 1}', JobView(roles={"ps": RoleView()})),
        ("{}", JobSpec()),
        ("{}", PlanAnswer()),
        ("{}", PodListAnswer()),
        ('{"error": "a proxy says no"}', JobServiceRefusal("a proxy says no")),
        ('{"code": "of-tomorrow", "error": "", "more": []}', JobServiceRefusal(code="of-tomorrow")),
    ],
)
def test_what_another_version_leaves_out_or_adds_is_no_obstacle(wire: str, understood: Any) -> None:
    assert msgspec.json.decode(wire, type=type(understood)) == understood


def test_a_pod_that_cannot_be_read_does_not_hide_the_others() -> None:
    body = b'{"pods": ["x", {"name": "a", "state": "resting"}, {"index": "one"}], "revision": "r"}'
    assert PodListAnswer.decode(body) == PodListAnswer([PodReport(name="a", state="resting")], "r")


def test_a_fence_names_role_index_and_epoch() -> None:
    assert Slot.parse(Slot("trainer", 0, 4).fence) == Slot("trainer", 0, 4)
