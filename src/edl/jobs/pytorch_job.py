"""One look at a PyTorch ElasticJob: (job, what is seen, what was granted, now) -> what to do and what to say.

Workers are equals in slots. The job fails only when fewer than minReplicas are left that may still work (design 004);
it has succeeded when one has finished and none runs any more. The same input gives the same answer.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from edl.api import annotations, duration, timestamp, views
from edl.api.core import Pod, Service
from edl.api.pytorch_job import ElasticJob
from edl.api.status import Scale
from edl.jobs.children import Owner, adoption, change, reconcile_child, standing
from edl.jobs.conditions import WORDS_EVERY
from edl.jobs.failures import NO_LIMIT, Rules
from edl.jobs.grant import Grant, entered, remembered
from edl.jobs.intents import Create, Delete, Intent
from edl.jobs.judgement import Circumstances
from edl.jobs.look import Look
from edl.jobs.outcome import Outcome, Refusal
from edl.jobs.podset import PodSetPlan, Wanted, plan_pods
from edl.jobs.pytorch_children import WorkerChildren
from edl.jobs.pytorch_environment import WORKER
from edl.jobs.pytorch_status import ROLE, Picture, counted, decided, done, draw, told
from edl.jobs.pytorch_verdict import judged, wakes
from edl.jobs.record import Record, from_status, to_status
from edl.jobs.refusal import name_taken, still_going
from edl.jobs.sight import Sight
from edl.jobs.slots import SlotPod, slot_name
from edl.jobs.upkeep import expiry, is_made, soonest, waiting, with_pause, without, worth_telling

LIMIT = 6  # failures in a row after which a worker is given up, if the job does not say
PAUSE = 1.0
PERMANENT = (1, 127)  # exit codes that restartPolicy ExitCode does not try again
UNDECIDED_FOR = 1.0  # a new job's first word waits so long for the scheduler's, so that both are one write


def rules(job: ElasticJob) -> Rules:
    policy, retries = job.spec.replica_specs.worker.restart_policy, job.spec.backoff_limit
    if policy == "Never":
        return Rules(limit=1, equals=True)
    limit = retries + 1 if retries is not None else NO_LIMIT if policy == "Always" else LIMIT
    permanent = PERMANENT if policy == "ExitCode" else None
    return Rules(limit, permanent, pause=PAUSE, again=policy == "Always", equals=True)


class PytorchLook:
    def __init__(self, look: Look[ElasticJob]) -> None:
        self._look, self._job, self._now = look, look.job, look.now
        self._old = look.job.status
        self._observed = look.observed
        self._view = views.view(look.job, installation=look.settings.installation)
        self._owner = Owner(self._view.api_version, self._view.kind, self._view.name, self._view.uid)
        self._scale = self._old.scale or Scale()
        self._grant = look.grant or remembered(self._scale)
        self._sight = Sight(look.observed.pods, self._view.name, WORKER, self._view.uid, self._now)
        self._created = timestamp.seconds(look.job.metadata.creation_timestamp or timestamp.text(self._now))
        self._record = self._remembered()
        self._size = 0 if self._view.suspend or self._grant is None else self._grant.target
        self._attempt = self._old.attempt + (1 if self._stopped() else 0)
        self._children = WorkerChildren(look.job, self._view, look.settings, self._attempt, look.token, look.ca)

    def _remembered(self) -> Record:
        counts = (self._old.replica_statuses or {}).get(ROLE)
        memory = next((memory for memory in self._old.slots if memory.role == WORKER), None)
        return from_status(memory, failed=counts.failed if counts else 0, seconds=self._scale.pod_seconds)

    def _stopped(self) -> bool:
        """All its workers are to go now, and those that come later are another attempt."""
        held = {"Queued", "Suspended"}
        before = any(one.type in held and one.status == "True" for one in self._old.conditions)
        return self._size == 0 and not before and (self._record.peak > 0 or bool(self._sight.slots))

    # What should be.

    def outcome(self) -> Outcome:
        if self._old.finished:
            return self._after_the_end()
        if self._grant is None:
            return self._undecided()
        plan = self._plan(self._size)
        picture = self._picture(plan, self._grant)
        if picture.verdict is not None:
            return self._outcome(picture, ())
        children, blocked = self._reconcile(plan)
        return self._outcome(self._told(picture, blocked), (*self._secret(), *self._pods(plan), *children))

    def _undecided(self) -> Outcome:
        """Nobody has planned for it yet. It says so itself only if nobody does for a while."""
        since = max(self._created, self._observed.worded_at)
        if self._now - since < UNDECIDED_FOR:
            return Outcome(self._old, wake=since + UNDECIDED_FOR)
        grant = Grant(0, "Waiting", "the scheduler has not looked at it yet")
        picture = replace(self._picture(self._plan(0), grant), decided=False)
        status = draw(self._old, replace(picture, scale=replace(picture.scale, target=None)), self._now)
        events = tuple(told(self._old, status, picture))
        return Outcome(status, urgent=self._old.phase == "", events=events, wake=wakes(self._job, self._old))

    def _plan(self, size: int) -> PodSetPlan:
        grant = self._grant or Grant(0)
        wanted = Wanted(
            self._view.name,
            WORKER,
            size,
            rules(self._job),
            nodes=grant.nodes_of(WORKER),
            leavers=grant.leavers_of(WORKER),
            taken=self._observed.taken | self._sight.strange,
            stalled=frozenset(pod.uid for pod in self._sight.slots if self._silent(pod) >= self._patience()),
        )
        return plan_pods(wanted, self._sight.slots, self._record, self._now)

    def _patience(self) -> float:
        text = self._job.metadata.annotations.get(annotations.STALL_TIMEOUT)
        return duration.seconds(text) if text else float("inf")

    def _silent(self, pod: SlotPod) -> float:
        """How long a worker that once reported progress has reported none."""
        return self._observed.silence.get(pod.name, 0.0) if pod.live else 0.0

    def _picture(self, plan: PodSetPlan, grant: Grant) -> Picture:
        may_reword = self._now - self._observed.worded_at >= WORDS_EVERY
        scale = entered(self._scale, grant, self._now, may_reword=may_reword)
        found = Circumstances(
            queued=grant.target == 0 and not self._view.suspend,
            suspended=self._view.suspend,
            code=scale.code,
            reason=scale.reason,
            refusals=self._observed.refusals,
            refused_edits=self._look.refused_edits,
            warnings=self._look.warnings,
        )
        return Picture(
            view=self._view,
            scale=with_pause(scale, self._observed.pause),
            plan=self._worded(plan),
            size=self._size,
            resized=grant.target != (self._scale.target or 0),
            found=found,
            attempt=self._attempt,
            trouble=self._sight.trouble,
            verdict=judged(self._job, self._old, plan, rules(self._job), self._size, self._now),
            may_reword=may_reword,
        )

    def _worded(self, plan: PodSetPlan) -> PodSetPlan:
        """A stalled worker has no last words; we say how long it was silent."""
        silence = self._observed.silence
        words = {pod.name: f"for {silence[pod.name]:.0f} s" for pod in self._sight.slots if pod.name in silence}
        failures = tuple(
            replace(one, pod=replace(one.pod, message=words[one.pod.name]))
            if one.pod.name in words and one.pod.exit_code is None
            else one
            for one in plan.failures
        )
        return replace(plan, failures=failures)

    def _told(self, picture: Picture, blocked: Sequence[Refusal]) -> Picture:
        refusals = worth_telling(self._observed, blocked, self._now - self._created)
        return replace(picture, found=replace(picture.found, refusals=refusals))

    # What to do.

    def _secret(self) -> list[Intent]:
        secret = self._children.secret() if self._size else None
        if secret is None or is_made(secret, self._observed, self._sight.trouble):
            return []
        return reconcile_child(secret, None, self._owner, self._view.uid, None)

    def _pods(self, plan: PodSetPlan) -> list[Intent]:
        intents: list[Intent] = [Delete(Pod.KIND, pod.name, pod.uid) for pod in plan.delete]
        intents += [change(Pod.KIND, pod, [adoption(pod, self._owner)]) for pod in self._sight.orphans]
        return intents + [Create(Pod.KIND, new.name, self._children.pod(new, self._owner)) for new in plan.create]

    def _reconcile(self, plan: PodSetPlan) -> tuple[list[Intent], list[Refusal]]:
        """A Service for every slot that the job has, from its first pod on. A name that is not ours is told of, and no
        reason to stop."""
        attempts = self._slots(plan)
        intents: list[Intent] = []
        blocked: list[Refusal] = []
        for index, attempt in sorted(attempts.items()):
            child = self._children.service(index, attempt)
            seen = self._observed.objects.get((child.kind, child.name))
            stands = standing(seen, self._owner, self._view.uid)
            if stands == "absent" and not (index in plan.holders and plan.holders[index].accepted):
                continue  # it would lead nowhere, and the cluster would look through all pods for it once more
            if stands in ("absent", "orphan"):
                intents += reconcile_child(child, seen, self._owner, self._view.uid, None)
            elif stands == "ours" and isinstance(seen, Service):
                led = self._children.led(seen, index, attempt)
                intents += [led] if led is not None else []
            else:
                blocked.append(name_taken(child) if stands == "foreign" else still_going(child))
        return intents + self._left(attempts), blocked

    def _slots(self, plan: PodSetPlan) -> dict[int, int]:
        """Slots that the job has, with the attempt that each is at: also those that wait, are done or given up."""
        record = plan.record
        slots = {index: record.slot(index).attempt for index in record.done}
        slots |= {one if isinstance(one, int) else one.index: 0 for one in plan.given_up}
        slots |= {index: record.slot(index).attempt for index in plan.waits}
        slots |= {index: pod.attempt for index, pod in plan.holders.items()}
        return slots | {new.index: new.attempt for new in plan.create}

    def _left(self, attempts: dict[int, int]) -> list[Intent]:
        """Services of slots that the job no longer has."""
        kept = {slot_name(self._view.name, WORKER, index) for index in attempts}
        return [
            Delete(kind, name, seen.metadata.uid)
            for (kind, name), seen in sorted(self._observed.objects.items())
            if kind == Service.KIND and name not in kept and standing(seen, self._owner, self._view.uid) == "ours"
        ]

    def _outcome(self, picture: Picture, intents: Sequence[Intent]) -> Outcome:
        status = draw(self._old, picture, self._now)
        held = waiting(self._observed, self._now)
        ready = without(intents, held)
        destroys = any(isinstance(intent, Delete) and intent.kind == Pod.KIND for intent in ready)
        return Outcome(
            status,
            urgent=decided(status, destroys) != decided(self._old, destroys),
            intents=tuple(ready),
            events=tuple(told(self._old, status, picture)),
            deeds=tuple(done(ready)),
            wake=soonest(
                picture.plan.wake,
                *(refusal.retry_at for refusal in held),
                wakes(self._job, status),
                self._next_stall(),
            ),
        )

    def _next_stall(self) -> float | None:
        """Reports bring about no look. Who has not been heard of yet may have spoken by then."""
        patience = self._patience()
        waits = [patience - self._silent(pod) for pod in self._sight.slots if pod.live]
        return self._now + max(0.0, min(waits)) if waits and patience != float("inf") else None

    # The end.

    def _after_the_end(self) -> Outcome:
        """Pods stay for their logs, unless cleanPodPolicy says otherwise; what they come to is still counted."""
        live = [pod for pod in self._sight.slots if pod.live]
        plan = self._plan(len(live))
        memory = to_status(WORKER, plan.record)
        status = replace(
            self._old,
            replica_statuses={ROLE: counted(replace(plan.counts, desired=0))},
            slots=(memory,) if memory is not None else (),
        )
        gone = expiry(self._old.completion_time, self._job.spec.ttl_seconds_after_finished)
        if gone is not None and gone <= self._now:
            return Outcome(status, intents=(Delete(self._view.kind, self._view.name, self._view.uid),))
        lingering = [pod for pod in self._sight.slots if pod.lingers and not pod.leaving]
        intents = (*self._cleaned(live), *(Delete(Pod.KIND, pod.name, pod.uid) for pod in lingering))
        return Outcome(status, intents=intents, deeds=tuple(done(intents)), wake=gone)

    def _cleaned(self, live: Sequence[SlotPod]) -> list[Intent]:
        policy = self._job.spec.clean_pod_policy
        if policy not in ("Running", "All"):
            return []
        pods = [pod for pod in self._sight.slots if not pod.leaving] if policy == "All" else live
        names = {slot_name(self._view.name, WORKER, pod.index) for pod in pods}
        services = [
            Delete(kind, name, seen.metadata.uid)
            for (kind, name), seen in sorted(self._observed.objects.items())
            if kind == Service.KIND
            and (policy == "All" or name in names)
            and standing(seen, self._owner, self._view.uid) == "ours"
        ]
        return [*(Delete(Pod.KIND, pod.name, pod.uid) for pod in pods), *services]
