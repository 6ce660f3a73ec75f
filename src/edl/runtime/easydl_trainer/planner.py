"""Plans the job's resources: measure, ask for a plan, record it, post it.

The order makes every step safe to repeat after a crash: a plan is first in the trainer's durable state, then posted;
posting it again changes nothing, and a trainer that starts posts its last plan before it does anything else.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

import msgspec

from edl.brain.policy.evaluation import evaluated
from edl.brain.policy.history import median_throughput
from edl.protocol.job_facts import OOM, Capacity, Features, JobFacts, PlanEvaluation, PlanRecord, ResourcePlan, Sample
from edl.protocol.plans import JobSpec, PlanAnswer, PlanWritten
from edl.protocol.pods import PodListAnswer, PodReport
from edl.protocol.resources import SERVER, WORKER, RolePlan
from edl.protocol.slots import Slot
from edl.runtime.easydl_trainer.advisor import Advisor
from edl.runtime.easydl_trainer.features import extract
from edl.runtime.easydl_trainer.plan_spec import spec_of
from edl.runtime.easydl_trainer.pod_report import PodSummary, read
from edl.runtime.easydl_trainer.state import KEY, TrainerState, decode, encode
from edl.runtime.easydl_trainer.throughput import Meter, TrainingSnapshot
from edl.runtime.service_client import OverruledError, ServiceDownError, ServiceRefusalError, StaleEpochError

log = logging.getLogger(__name__)

SHORTEST = 1.0  # seconds of a last interval that still count
STUCK = 300.0  # seconds after which a plan that does not settle no longer holds up the next


class PlannerService(Protocol):
    """The part of the job service that a planner needs."""

    def get(self, key: str) -> tuple[bytes, int] | None: ...

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int: ...

    def spec(self) -> JobSpec: ...

    def plan(self) -> PlanAnswer: ...

    def post_plan(self, spec: dict[str, Any], reason: str, slot: Slot, *, urgent: bool = False) -> PlanWritten: ...

    def pods(self, after: str = "", wait: float = 0.0) -> PodListAnswer | None: ...


class Training(Protocol):
    """Progress of the training, as the task queue knows it."""

    def snapshot(self) -> TrainingSnapshot: ...

    def remaining(self) -> float: ...

    def pause(self) -> float: ...

    def records(self) -> int: ...


class Planner:
    def __init__(
        self,
        service: PlannerService,
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
        self._service, self._training, self.advisor, self._slot = service, training, advisor, slot
        self._job, self._namespace, self._clock, self._stop = job, namespace, clock, stop
        self._meter = Meter(settle=min(5.0, period / 4), least=period / 2)
        self._samples = samples
        self._version = 0
        self._ruled, self._posted = "", False
        self._known_hot: set[str] = set()  # at the last update
        self.state = TrainerState()
        self.pods = PodSummary()
        self.reason = ""

    # A planner begins once, ticks often, and updates now and then.

    def begin(self) -> None:
        """Takes up what the last trainer left, or makes the first plan."""
        found = self._service.get(KEY)
        if found is not None:
            self.state, self._version = decode(found[0]), found[1]
        if not self.state.plans:
            features = read_features(self._service, self._namespace)
            plan, source = self.advisor.start(features, self._capacity(self._plan_status()))
            record = PlanRecord(1, self._clock(), plan, source=source)
            self._save(msgspec.structs.replace(self.state, features=features, plans=(record,)))
            self.reason = plan.reason
            log.info("plan 1 (%s): %s", source, plan.reason)
        self._post(self.state.plans[-1].plan)

    def tick(self) -> bool:
        """Keeps the meter running. True: something happened that calls for an update now."""
        self._meter.observe(self._training.snapshot(), self._clock())
        return bool(set(self.pods.failed) - set(self.state.seen)) or bool(self._hot() - self._known_hot)

    def _hot(self) -> set[str]:
        """Parameter servers that are busier than is good."""
        uses = {slot: use for slot, use in self.pods.uses.items() if slot.startswith(f"{SERVER}-") and use.cpu_limit}
        return {slot for slot, use in uses.items() if use.cpu > self.advisor.settings.hot * use.cpu_limit}

    def observe_pods(self, pods: Iterable[PodReport]) -> None:
        self.pods = read(pods, self._clock())

    def update_safely(self) -> None:
        """An update that the service interrupts is made again later; one that shows that we were replaced is the end.
        Whatever else goes wrong with planning, training goes on."""
        try:
            self.update()
        except ServiceDownError as error:
            log.info("job service: %s", error)
        except ServiceRefusalError:
            raise
        except Exception:
            log.exception("a round of planning failed")

    def update(self) -> None:
        """Reports what was measured, and posts the next plan if there is one."""
        now, status = self._clock(), self._plan_status()
        self._known_hot = self._hot()
        if not self._posted or (status is not None and not status.name and not self._ruled):
            self._post(self.state.plans[-1].plan)  # the service was away, or somebody deleted the JobResource
        state = self._measured(now)
        facts = self._facts(state, status)
        settled, urgent = self._settled(status, now), self._urgent(facts)
        if not settled and not urgent:
            self.reason = f"plan {state.plans[-1].number} is being carried out"
            self._save(state)
            return
        advice = self.advisor.next(facts, self.pods.uses, now)
        self.reason = advice.decision.reason
        state = _evaluated(state, advice.decision.evaluation)
        plan = advice.decision.plan
        if plan is None or self._ruled:
            self._save(state)
            log.info("no new plan (%s): %s", advice.source, self._ruled or self.reason)
            return
        before = median_throughput(
            [sample for sample in facts.samples if sample.time > state.plans[-1].time][-self._samples :]
        )
        record = PlanRecord(state.plans[-1].number + 1, now, plan, before, source=advice.source)
        self._save(msgspec.structs.replace(state, plans=(*state.plans, record)))
        log.info("plan %d (%s): %s", record.number, advice.source, plan.reason)
        self._post(plan)

    def conclude(self, outcome: Literal["succeeded", "failed"]) -> None:
        """The last report, and how it ended: also a job that was too short for an update teaches the next one."""
        try:
            self._save(self._measured(self._clock(), least=SHORTEST))
        except ServiceDownError as error:
            log.info("job service: %s", error)
        self.advisor.end(outcome, self.state)

    # Observed state.

    def _measured(self, now: float, *, least: float | None = None) -> TrainerState:
        """The state with the samples and incidents since the last update."""
        state = self.state
        found = self._meter.cut(self._training.snapshot(), now, least=least)
        if found is not None and found.workers:
            servers = self.pods.running.get(SERVER, 0)
            sample = Sample(now, found.seconds, found.workers, found.throughput, servers, self.pods.uses)
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

    def _facts(self, state: TrainerState, status: PlanAnswer | None) -> JobFacts:
        plan = state.plans[-1].plan
        return JobFacts(
            features=state.features,
            present=plan.roles,
            slots=plan.slots,
            granted=status.granted if status else {},
            samples=state.samples,
            plans=state.plans,
            incidents=state.incidents,
            capacity=self._capacity(status),
            remaining=self._training.remaining(),
            pause=self._training.pause(),
        )

    def _answers_oom(self) -> bool:
        """Whether a pod was killed for its memory between the last plan and the one before it."""
        *_, before, last = (None, None, *self.state.plans)
        if last is None:
            return False
        since = before.time if before is not None else 0.0
        return any(each.reason == OOM and since < each.time <= last.time for each in self.state.incidents)

    @staticmethod
    def _urgent(facts: JobFacts) -> bool:
        """A pod was killed for its memory since the last plan: that plan is not waited for."""
        return any(each.reason == OOM and each.time > facts.plans[-1].time for each in facts.incidents)

    def _settled(self, status: PlanAnswer | None, now: float) -> bool:
        """Whether the last plan was carried out, as far as it was granted."""
        record = self.state.plans[-1]
        if now - record.time > STUCK:
            return True
        status = status or PlanAnswer()
        if status.observed < status.generation or any(update.in_flight for update in status.updates):
            return False
        granted, running = status.granted, self.pods.running
        wanted = {role: granted.get(role, _replicas(record.plan, role)) for role in (WORKER, SERVER)}
        return all(running.get(role, 0) == count for role, count in wanted.items())

    def _plan_status(self) -> PlanAnswer | None:
        """The plan in force and what was made of it; None if the service does not say."""
        try:
            return self._service.plan()
        except (ServiceDownError, ServiceRefusalError) as error:
            if isinstance(error, StaleEpochError):
                raise
            log.info("job service: %s", error)
            return None

    def _capacity(self, status: PlanAnswer | None) -> Capacity | None:
        """The cluster without what this job holds. What others hold is the scheduler's to move."""
        if status is None or status.capacity is None:
            return None
        try:
            whole = msgspec.convert(msgspec.structs.asdict(status.capacity), Capacity)
        except msgspec.ValidationError:  # beyond what the policy reckons with
            return None
        if not self.state.plans:
            return whole
        held = self.state.plans[-1].plan.roles.items()
        counts = [(self.pods.running.get(role, 0), plan.resource) for role, plan in held]
        return Capacity(
            max(0.0, whole.cpu - sum(count * (each.cpu or 0.0) for count, each in counts)),
            max(0, whole.memory - sum(count * (each.memory or 0) for count, each in counts)),
            max(0, whole.gpu - sum(count * (each.gpu or 0) for count, each in counts)),
        )

    # Actions.

    def _save(self, state: TrainerState) -> None:
        state = state.trimmed()
        if state != self.state:
            self._version = self._service.put(
                KEY, encode(state), version=self._version, slot=self._slot, stop=self._stop
            )
            self.state = state

    def _post(self, plan: ResourcePlan) -> None:
        """A plan that the service does not take now is posted again by the next update: it is in the state."""
        try:
            self._posted = False
            self._service.post_plan(spec_of(plan, self._job), plan.reason, self._slot, urgent=self._answers_oom())
            self._ruled, self._posted = "", True
        except OverruledError as error:
            self._ruled = f"the job is ruled by another plan: {error.body.error}"
            self._posted = True  # there is nothing more to do about it
            log.warning("%s; this trainer only watches", self._ruled)
        except StaleEpochError:
            raise
        except ServiceRefusalError as error:
            self._posted = True  # the same again would be refused again
            log.error("the plan is refused: %s", error)
        except ServiceDownError as error:
            log.info("the plan is not posted yet: %s", error)


def read_features(service: PlannerService, namespace: str) -> Features:
    try:
        return extract(service.spec().spec, namespace)
    except (ServiceDownError, ServiceRefusalError) as error:
        log.info("nothing is known of the job's own words: %s", error)
        return extract(None, namespace)


def _replicas(plan: ResourcePlan, role: str) -> int:
    return plan.roles.get(role, RolePlan(0)).replicas


def _evaluated(state: TrainerState, evaluation: PlanEvaluation | None) -> TrainerState:
    if evaluation is None or not state.plans:
        return state
    record = evaluated(state.plans[-1], evaluation)
    return msgspec.structs.replace(state, plans=(*state.plans[:-1], record))
