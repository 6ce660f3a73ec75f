"""One look after another: measure, ask, write down, post. What is written down is done again after a crash.

The order makes every step safe to repeat: a plan is first in the trainer's state (durable), then posted; posting it
again changes nothing, and a trainer that starts posts its last plan before it does anything else.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from edl.brain.policy.facts import OOM, Capacity, Features, JobFacts, Plan, PlanRecord, Sample
from edl.brain.policy.history import speed
from edl.brain.policy.judge import Judgement
from edl.brain.policy.units import SERVER, WORKER, RolePlan

from ..service import ServiceDownError, ServiceRefusalError, Slot, StaleEpochError
from .advisor import Advisor
from .features import extract
from .meter import Look, Meter
from .pods import Pods, read
from .spec import spec_of
from .state import KEY, TrainerState, decode, encode

log = logging.getLogger(__name__)

IN_FLIGHT = ("pending", "replacing")
SHORTEST = 1.0  # seconds of a last stretch that still count
STUCK = 300.0  # seconds after which a plan that does not settle no longer holds up the next


class Ground(Protocol):
    """What a planner needs of the job service."""

    def get(self, key: str) -> tuple[bytes, int] | None: ...

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int: ...

    def spec(self) -> dict[str, Any]: ...

    def plan(self) -> dict[str, Any]: ...

    def post_plan(self, spec: dict[str, Any], reason: str, slot: Slot) -> dict[str, Any]: ...

    def pods(self, after: str = "", wait: float = 0.0) -> dict[str, Any] | None: ...


class Training(Protocol):
    """How the training goes, as the task queue knows it."""

    def look(self) -> Look: ...

    def remaining(self) -> float: ...

    def pause(self) -> float: ...

    def records(self) -> int: ...


class Planner:
    def __init__(
        self,
        ground: Ground,
        training: Training,
        advisor: Advisor,
        slot: Slot,
        *,
        job: str,
        namespace: str,
        period: float,
        samples: int,
        clock: Callable[[], float] = time.time,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ground, self._training, self.advisor, self._slot = ground, training, advisor, slot
        self._job, self._namespace, self._clock, self._stop = job, namespace, clock, stop
        self._meter = Meter(settle=min(5.0, period / 4), least=period / 2)
        self._samples = samples
        self._version = 0
        self._ruled, self._posted = "", False
        self._known_hot: set[str] = set()  # at the last look
        self.state = TrainerState()
        self.pods = Pods()
        self.reason = ""

    # The life of a planner: begin once, tick often, look now and then.

    def begin(self) -> None:
        """Takes up what the last trainer left, or makes the first plan."""
        found = self._ground.get(KEY)
        if found is not None:
            self.state, self._version = decode(found[0]), found[1]
        if not self.state.plans:
            features = extract_features(self._ground, self._namespace)
            plan, source = self.advisor.start(features, self._capacity(self._made()))
            record = PlanRecord(1, self._clock(), plan, source=source)
            self._save(msgspec.structs.replace(self.state, features=features, plans=(record,)))
            self.reason = plan.reason
            log.info("plan 1 (%s): %s", source, plan.reason)
        self._post(self.state.plans[-1].plan)

    def tick(self) -> bool:
        """Keeps the meter running. True: something happened that should be looked at now."""
        self._meter.look(self._training.look(), self._clock())
        return bool(set(self.pods.failed) - set(self.state.seen)) or bool(self._hot() - self._known_hot)

    def _hot(self) -> set[str]:
        """Parameter servers that are busier than is good."""
        uses = {slot: use for slot, use in self.pods.uses.items() if slot.startswith(f"{SERVER}-") and use.cpu_limit}
        return {slot for slot, use in uses.items() if use.cpu > self.advisor.settings.hot * use.cpu_limit}

    def see(self, pods: object) -> None:
        self.pods = read(pods, self._clock())

    def look_safely(self) -> None:
        """A look that the service interrupts is made again later; one that shows that we were replaced is the end.
        Whatever else goes wrong with planning, training goes on."""
        try:
            self.look()
        except ServiceDownError as error:
            log.info("job service: %s", error)
        except ServiceRefusalError:
            raise
        except Exception:
            log.exception("a look failed")

    def look(self) -> None:
        """One report, and the next plan if there is one."""
        now, made = self._clock(), self._made()
        self._known_hot = self._hot()
        if not self._posted or (made.get("name") == "" and not self._ruled):
            self._post(self.state.plans[-1].plan)  # the service was away, or somebody deleted the JobResource
        state = self._observed(now)
        facts = self._facts(state, made)
        settled, urgent = self._settled(made, now), self._urgent(facts)
        if not settled and not urgent:
            self.reason = f"plan {state.plans[-1].number} is being carried out"
            self._save(state)
            return
        advice = self.advisor.next(facts, self.pods.uses, now)
        self.reason = advice.verdict.reason
        state = _judged(state, advice.verdict.judgement)
        plan = advice.verdict.plan
        if plan is None or self._ruled:
            self._save(state)
            log.info("no new plan (%s): %s", advice.source, self._ruled or self.reason)
            return
        before = speed([sample for sample in facts.samples if sample.time > state.plans[-1].time][-self._samples :])
        record = PlanRecord(state.plans[-1].number + 1, now, plan, before, source=advice.source)
        self._save(msgspec.structs.replace(state, plans=(*state.plans, record)))
        log.info("plan %d (%s): %s", record.number, advice.source, plan.reason)
        self._post(plan)

    def conclude(self, outcome: Literal["succeeded", "failed"]) -> None:
        """The last report, and how it ended: also a job that was too short for a look teaches the next one."""
        try:
            self._save(self._observed(self._clock(), least=SHORTEST))
        except ServiceDownError as error:
            log.info("job service: %s", error)
        self.advisor.end(outcome, self.state)

    # What is known.

    def _observed(self, now: float, *, least: float | None = None) -> TrainerState:
        """The state with what was measured and what went wrong since the last look."""
        state = self.state
        stretch = self._meter.cut(self._training.look(), now, least=least)
        if stretch is not None and stretch.workers:
            servers = self.pods.running.get(SERVER, 0)
            sample = Sample(now, stretch.seconds, stretch.workers, stretch.throughput, servers, self.pods.uses)
            state = msgspec.structs.replace(state, samples=(*state.samples, sample))
        new = {name: incident for name, incident in self.pods.failed.items() if name not in state.seen}
        if new:
            log.warning("failed: %s", ", ".join(f"{name} ({incident.reason})" for name, incident in new.items()))
            state = msgspec.structs.replace(
                state, incidents=(*state.incidents, *new.values()), seen=(*state.seen, *new)
            )
        records = float(self._training.records())
        if records and records != state.features.records:
            features = msgspec.structs.replace(state.features, records=records)
            state = msgspec.structs.replace(state, features=features)
        return state

    def _facts(self, state: TrainerState, made: dict[str, Any]) -> JobFacts:
        plan = state.plans[-1].plan
        granted = made.get("granted")
        return JobFacts(
            features=state.features,
            present=plan.roles,
            slots=plan.slots,
            granted={str(role): int(count) for role, count in granted.items()} if isinstance(granted, dict) else {},
            samples=state.samples,
            plans=state.plans,
            incidents=state.incidents,
            capacity=self._capacity(made),
            remaining=self._training.remaining(),
            pause=self._training.pause(),
        )

    @staticmethod
    def _urgent(facts: JobFacts) -> bool:
        """Somebody was killed for want of memory since the last plan: that one cannot be waited for."""
        return any(each.reason == OOM and each.time > facts.plans[-1].time for each in facts.incidents)

    def _settled(self, made: dict[str, Any], now: float) -> bool:
        """Whether the last plan was carried out, as far as it was granted."""
        record = self.state.plans[-1]
        if now - record.time > STUCK:
            return True
        if made.get("observed", 0) < made.get("generation", 0):
            return False
        if any(update.get("state") in IN_FLIGHT for update in made.get("updates") or ()):
            return False
        granted, running = made.get("granted") or {}, self.pods.running
        wanted = {role: granted.get(role, _replicas(record.plan, role)) for role in (WORKER, SERVER)}
        return all(running.get(role, 0) == count for role, count in wanted.items())

    def _made(self) -> dict[str, Any]:
        try:
            return self._ground.plan()
        except (ServiceDownError, ServiceRefusalError) as error:
            if isinstance(error, StaleEpochError):
                raise
            log.info("job service: %s", error)
            return {}

    def _capacity(self, made: dict[str, Any]) -> Capacity | None:
        """The cluster without what this job holds. What others hold is the scheduler's to move."""
        try:
            whole = msgspec.convert(made.get("capacity"), Capacity | None, strict=False)
        except msgspec.ValidationError:
            return None
        if whole is None or not self.state.plans:
            return whole
        held = self.state.plans[-1].plan.roles.items()
        counts = [(self.pods.running.get(role, 0), plan.resource) for role, plan in held]
        return Capacity(
            max(0.0, whole.cpu - sum(count * (each.cpu or 0.0) for count, each in counts)),
            max(0, whole.memory - sum(count * (each.memory or 0) for count, each in counts)),
            max(0, whole.gpu - sum(count * (each.gpu or 0) for count, each in counts)),
        )

    # What is done about it.

    def _save(self, state: TrainerState) -> None:
        state = state.trimmed()
        if state != self.state:
            self._version = self._ground.put(
                KEY, encode(state), version=self._version, slot=self._slot, stop=self._stop
            )
            self.state = state

    def _post(self, plan: Plan) -> None:
        """A plan that the service does not take now is posted again by the next look: it is in the state."""
        try:
            self._posted = False
            self._ground.post_plan(spec_of(plan, self._job), plan.reason, self._slot)
            self._ruled, self._posted = "", True
        except StaleEpochError as error:
            if error.code not in ("ruled", "name-taken"):
                raise
            self._ruled = f"the job is ruled by another plan: {error.body.get('error', error)}"
            self._posted = True  # there is nothing more to do about it
            log.warning("%s; this trainer only watches", self._ruled)
        except ServiceRefusalError as error:
            self._posted = True  # the same again would be refused again
            log.error("the plan is refused: %s", error)
        except ServiceDownError as error:
            log.info("the plan is not posted yet: %s", error)


def extract_features(ground: Ground, namespace: str) -> Features:
    try:
        return extract(ground.spec(), namespace)
    except (ServiceDownError, ServiceRefusalError) as error:
        log.info("nothing is known of the job's own words: %s", error)
        return extract({}, namespace)


def _replicas(plan: Plan, role: str) -> int:
    return plan.roles.get(role, RolePlan(0)).replicas


def _judged(state: TrainerState, judgement: Judgement | None) -> TrainerState:
    if judgement is None or not state.plans:
        return state
    record = msgspec.structs.replace(state.plans[-1], obtained=judgement.obtained, verdict=judgement.verdict)
    return msgspec.structs.replace(state, plans=(*state.plans[:-1], record))
