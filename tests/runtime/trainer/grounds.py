"""A job service and a training that obey at once, in virtual time, and fail where a test says."""

import time
from collections.abc import Callable
from typing import Any

from edl.brain.policy.settings import DEFAULTS
from edl.runtime.service import ServiceDownError, Slot, StaleEpochError, VersionError
from edl.runtime.trainer.advisor import Advisor
from edl.runtime.trainer.meter import Look
from edl.runtime.trainer.planner import Planner, Training

PERIOD = 30.0
SPEC = {
    "spec": {
        "distributionStrategy": "parameter_server",
        "worker": {
            "template": {
                "spec": {"containers": [{"image": "ctr:1", "command": ["python", "train.py", "--batch_size=32"]}]}
            }
        },
    }
}


class KilledError(BaseException):
    """The process was killed here: nothing catches it."""


class FakeGround:
    """Keeps what the job service would keep. `mine`: memory in MiB that a worker needs; with less it is killed."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, int]] = {}
        self.posted: list[dict[str, Any]] = []
        self.writes: list[str] = []
        self.epoch = 1
        self.told: dict[str, Any] = SPEC
        self.generation = 0
        self.grant: Callable[[int], int] = lambda wanted: wanted
        self.mine = 0
        self.killed_pods: list[dict[str, Any]] = []
        self.down = False
        self.capacity: dict[str, Any] | None = None
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
            raise StaleEpochError(409, {"code": "stale-epoch", "error": "stale epoch"})
        if self.values.get(key, (b"", 0))[1] != version:
            raise VersionError(412, {"code": "version", "error": "another came first"})
        self.values[key] = (data, version + 1)
        self.writes.append(key)
        self._after("put", number)
        return version + 1

    def spec(self) -> dict[str, Any]:
        self._step("spec")
        return self.told

    def post_plan(self, spec: dict[str, Any], reason: str, slot: Slot) -> dict[str, Any]:
        number = self._step("post")
        if slot.epoch != self.epoch:
            raise StaleEpochError(409, {"code": "stale-epoch", "error": "stale epoch"})
        if self.ruled:
            raise StaleEpochError(409, {"code": "ruled", "error": f"{self.ruled} rules the job"})
        changed = not self.posted or self.posted[-1] != spec
        if changed:
            self.posted.append(spec)
            self.generation += 1
        self._after("post", number)
        return {"name": "j", "generation": self.generation, "changed": changed}

    def plan(self) -> dict[str, Any]:
        self._step("plan")
        observed = self.generation if self.settled else self.generation - 1
        return {
            "name": "j" if self.posted else "",
            "generation": self.generation,
            "observed": observed,
            "granted": {"worker": self.workers, "ps": self.servers},
            "updates": [],
            "capacity": self.capacity,
        }

    def pods(self, after: str = "", wait: float = 0.0) -> dict[str, Any] | None:
        pods = [self._pod("worker", index) for index in range(self.workers)]
        pods += [self._pod("ps", index) for index in range(self.servers)]
        return {"pods": pods + self.killed_pods, "revision": "1"}

    def _pod(self, role: str, index: int) -> dict[str, Any]:
        resources = self.posted[-1]["parameter_server" if role == "ps" else role]["resource"]
        usage = {"cpu": 0.2, "memory": 100, "age": 1.0}
        return {
            "name": f"j-{role}-{index}",
            "role": role,
            "index": index,
            "state": "running",
            "resources": resources,
            "usage": usage,
        }

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
            dead = {**self._pod("worker", 0), "name": f"j-worker-0-{number}", "state": "failed", "oom": True}
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

    def __init__(self, ground: FakeGround, law: Callable[[int], float]) -> None:
        self._ground, self._law = ground, law
        self.now, self.total = 1_000_000.0, 0.0

    def clock(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.total += seconds * self._law(self._ground.workers)

    def look(self) -> Look:
        return Look(self.total, frozenset(range(self._ground.workers)))

    def remaining(self) -> float:
        return 1e9

    def pause(self) -> float:
        return 1.0

    def records(self) -> int:
        return 5000


def planner(ground: FakeGround, training: Training, advisor: Advisor | None = None) -> Planner:
    """A trainer that has taken the slot: whoever held it before is fenced."""
    return Planner(
        ground,
        training,
        advisor or Advisor(lambda: None, "ns/j/u"),
        Slot("trainer", 0, ground.epoch),
        job="j",
        namespace="ns",
        period=PERIOD,
        samples=DEFAULTS.samples,
        clock=training.clock if isinstance(training, FakeTraining) else time.time,
    )


def period(made: Planner, ground: FakeGround, training: FakeTraining) -> None:
    for _ in range(int(PERIOD)):
        training.advance(1.0)
        made.see((ground.pods() or {})["pods"])
        if made.tick():
            break
    made.look_safely()
