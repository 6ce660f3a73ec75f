"""A job service and a training that obey at once, in virtual time, and fail where a test says."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from edl.brain.policy.settings import DEFAULTS
from edl.protocol.errors import ErrorCode, JobServiceRefusal
from edl.protocol.plans import ClusterCapacity, JobSpec, PlanAnswer, PlanWritten
from edl.protocol.pods import PodListAnswer, PodReport, PodResources, ReportedUsage
from edl.protocol.slots import Slot
from edl.runtime.easydl_trainer.advisor import Advisor
from edl.runtime.easydl_trainer.planner import Planner, Training
from edl.runtime.easydl_trainer.throughput import TrainingSnapshot
from edl.runtime.service_client import OverruledError, ServiceDownError, StaleEpochError, VersionError

PERIOD = 30.0
SPEC = {
    "distributionStrategy": "parameter_server",
    "worker": {
        "template": {"spec": {"containers": [{"image": "ctr:1", "command": ["python", "train.py", "--batch_size=32"]}]}}
    },
}


class KilledError(BaseException):
    """The process was killed here: nothing catches it."""


class FakeService:
    """Keeps what the job service would keep. `mine`: memory in MiB that a worker needs; with less it is killed."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, int]] = {}
        self.posted: list[dict[str, Any]] = []
        self.urgent: list[bool] = []
        self.writes: list[str] = []
        self.epoch = 1
        self.reported = JobSpec(SPEC)
        self.generation = 0
        self.grant: Callable[[int], int] = lambda wanted: wanted
        self.mine = 0
        self.killed_pods: list[PodReport] = []
        self.down = False
        self.capacity: ClusterCapacity | None = None
        self.ruled = ""
        self.settled = True
        self.kill_at: str | None = None  # "put 3 after": the third put is made, its answer never arrives
        self._counts: dict[str, int] = {}

    def get(self, key: str) -> tuple[bytes, int] | None:
        self._step("get")
        return self.values.get(key)

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int:
        number = self._step("put")
        if slot.epoch != self.epoch:
            raise StaleEpochError(409, JobServiceRefusal("stale epoch", ErrorCode.STALE_EPOCH))
        if self.values.get(key, (b"", 0))[1] != version:
            raise VersionError(412, JobServiceRefusal("another came first", ErrorCode.VERSION))
        self.values[key] = (data, version + 1)
        self.writes.append(key)
        self._after("put", number)
        return version + 1

    def spec(self) -> JobSpec:
        self._step("spec")
        return self.reported

    def post_plan(self, spec: dict[str, Any], reason: str, slot: Slot, *, urgent: bool = False) -> PlanWritten:
        number = self._step("post")
        if slot.epoch != self.epoch:
            raise StaleEpochError(409, JobServiceRefusal("stale epoch", ErrorCode.STALE_EPOCH))
        if self.ruled:
            raise OverruledError(409, JobServiceRefusal(f"{self.ruled} rules the job", ErrorCode.RULED))
        changed = not self.posted or self.posted[-1] != spec
        if changed:
            self.posted.append(spec)
            self.urgent.append(urgent)
            self.generation += 1
        self._after("post", number)
        return PlanWritten("j", self.generation, changed)

    def plan(self) -> PlanAnswer:
        self._step("plan")
        observed = self.generation if self.settled else self.generation - 1
        return PlanAnswer(
            name="j" if self.posted else "",
            generation=self.generation,
            observed=observed,
            granted={"worker": self.workers, "ps": self.servers},
            capacity=self.capacity,
        )

    def pods(self, after: str = "", wait: float = 0.0) -> PodListAnswer:
        pods = [self._pod("worker", index) for index in range(self.workers)]
        pods += [self._pod("ps", index) for index in range(self.servers)]
        return PodListAnswer(pods + self.killed_pods, "1")

    def _pod(self, role: str, index: int) -> PodReport:
        resources = self.posted[-1]["parameter_server" if role == "ps" else role]["resource"]
        return PodReport(
            name=f"j-{role}-{index}",
            role=role,
            index=index,
            state="running",
            resources=msgspec.convert(resources, PodResources),
            usage=ReportedUsage(cpu=0.2, memory=100, age=1.0),
        )

    @property
    def workers(self) -> int:
        return self.grant(self.posted[-1]["worker"]["replicas"]) if self.posted else 0

    @property
    def servers(self) -> int:
        return int(self.posted[-1].get("parameter_server", {}).get("replicas", 0)) if self.posted else 0

    @property
    def enough(self) -> bool:
        return bool(self.posted[-1]["worker"]["resource"]["memory"] >= self.mine)

    def kill_for_memory(self) -> None:
        """What the kernel does to workers that have too little."""
        if not self.enough:
            number = len(self.killed_pods)
            dead = msgspec.structs.replace(
                self._pod("worker", 0), name=f"j-worker-0-{number}", state="failed", oom=True
            )
            self.killed_pods.append(dead)

    def _step(self, what: str) -> int:
        self._counts[what] = number = self._counts.get(what, 0) + 1
        if self.kill_at == f"{what} {number} before":
            self.kill_at = None
            raise KilledError
        if self.down:
            raise ServiceDownError("no answer")
        return number

    def _after(self, what: str, number: int) -> None:
        if self.kill_at == f"{what} {number} after":
            self.kill_at = None
            raise KilledError


class FakeTraining:
    """Trains by a law, in the time of its clock."""

    def __init__(self, service: FakeService, law: Callable[[int], float]) -> None:
        self._service, self._law = service, law
        self.now, self.total = 1_000_000.0, 0.0

    def clock(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.total += seconds * self._law(self._service.workers)

    def snapshot(self) -> TrainingSnapshot:
        return TrainingSnapshot(self.total, frozenset(range(self._service.workers)))

    def remaining(self) -> float:
        return 1e9

    def pause(self) -> float:
        return 1.0

    def records(self) -> int:
        return 5000


def planner(service: FakeService, training: Training, advisor: Advisor | None = None) -> Planner:
    """A trainer that has taken the slot: whoever held it before is fenced."""
    return Planner(
        service,
        training,
        advisor or Advisor(lambda: None, "ns/j/u"),
        Slot("trainer", 0, service.epoch),
        job="j",
        namespace="ns",
        period=PERIOD,
        samples=DEFAULTS.samples,
        clock=training.clock if isinstance(training, FakeTraining) else time.time,
    )


def period(made: Planner, service: FakeService, training: FakeTraining) -> None:
    for _ in range(int(PERIOD)):
        training.advance(1.0)
        made.observe_pods(service.pods().pods)
        if made.tick():
            break
    made.update_safely()
