"""One look at a TrainingJob: (job, what is seen of it, what was granted to it, now) -> what to do and what to say.

Everything about the kind meets here and only here: children in their order, trainers by slots, the rules of failure and
success, release at the end. The same input gives the same answer; its own result gives nothing to do.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from edl.api import timestamp, views
from edl.api.core import Job, Pod
from edl.api.roles import replicas_at
from edl.api.training_job import TrainingJob, TrainingRootCause, TrainingScale
from edl.api.training_roles import TRAINER
from edl.jobs.batch_job import Tally, status_change
from edl.jobs.children import Owner, adoption, change, reconcile_child, size_of, standing
from edl.jobs.conditions import WORDS_EVERY
from edl.jobs.edits import BEGUN_WITH, honoured
from edl.jobs.failures import Rules
from edl.jobs.grant import Grant, entered, remembered
from edl.jobs.intents import Change, Create, Delete, Intent, add
from edl.jobs.look import Look
from edl.jobs.outcome import Outcome, Refusal
from edl.jobs.phase import Facts
from edl.jobs.podset import Counts, PodSetPlan, Wanted, plan_pods
from edl.jobs.record import from_status, to_status
from edl.jobs.refusal import name_taken, still_going
from edl.jobs.sight import Sight
from edl.jobs.slots import SlotPod
from edl.jobs.training_children import TrainingChildren, job_owner
from edl.jobs.training_status import Picture, decided, done, draw, told
from edl.jobs.upkeep import expiry, is_made, soonest, waiting, with_pause, without, worth_telling

LEFTOVER_PAUSE = 1.0
UNDECIDED_FOR = 1.0  # a new job's first word waits so long for the scheduler's, so that both are one write


class TrainingLook:
    def __init__(self, look: Look[TrainingJob]) -> None:
        job, observed, settings, now = look.job, look.observed, look.settings, look.now
        batch = observed.objects.get((Job.KIND, f"{job.metadata.name}-{TRAINER}"))
        note = batch.metadata.annotations.get(BEGUN_WITH) if batch is not None else None
        self._job, dishonoured = honoured(job, note)
        self._refused_edits = look.refused_edits + dishonoured
        self._old = job.status
        self._observed, self._settings, self._now = observed, settings, now
        self._warnings = look.warnings
        self._view = views.view(self._job, installation=settings.installation)
        self._owner = job_owner(self._view)
        self._children = TrainingChildren(self._job, self._view, settings, look.token, look.ca)
        self._scale = self._old.scale_status or TrainingScale()
        self._grant = look.grant or remembered(self._scale)
        self._batch = self._own_batch_job()
        batch_uid = self._batch.metadata.uid if self._batch is not None else ""
        self._sight = Sight(observed.pods, self._view.name, TRAINER, batch_uid, now)
        self._created = timestamp.seconds(job.metadata.creation_timestamp or timestamp.text(now))

    # What is.

    def _own_batch_job(self) -> Job | None:
        seen = self._observed.objects.get((Job.KIND, self._children.name(TRAINER)))
        ours = standing(seen, self._owner, self._view.uid) in ("ours", "orphan")
        return seen if ours and isinstance(seen, Job) else None

    # What should be.

    def outcome(self) -> Outcome:
        if self._old.finished:
            return self._after_the_end()
        if self._grant is None:
            return self._undecided()
        size = 0 if self._view.suspend else self._grant.target
        sizes = {role.name: replicas_at(role, size) for role in self._view.roles}
        plan = self._plan(size)
        end = "failed" if plan.given_up else "succeeded" if plan.complete else ""
        if end:
            return self._end(plan, sizes, replace(self._facts(plan, sizes), end=end))
        children, blocked = self._reconcile_children(sizes)
        pods = self._pod_intents(plan) if blocked is None else ()
        picture = self._picture(plan, sizes, self._facts(plan, sizes), blocked)
        return self._outcome(picture, (*children, *pods), self._tally(plan), blocked)

    def _undecided(self) -> Outcome:
        """Nobody has planned for it yet. It says so itself only if nobody does for a while."""
        since = max(self._created, self._observed.worded_at)
        if self._now - since < UNDECIDED_FOR:
            return Outcome(self._old, wake=since + UNDECIDED_FOR)
        grant = Grant(0, "Waiting", "the scheduler has not looked at it yet")
        picture = self._picture(self._plan(0), {}, Facts(held=True), None, grant)
        status = draw(self._old, replace(picture, scale=replace(picture.scale, target=None)), self._now)
        return Outcome(status, urgent=self._old.phase == "", events=tuple(told(self._old, status, picture.plan, 0)))

    def _rules(self) -> Rules:
        """Not fault tolerant: the first failure is the last."""
        spec = self._job.spec
        return Rules(max(1, spec.backoff_limit or 0) if spec.fault_tolerant else 1)

    def _plan(self, size: int) -> PodSetPlan:
        old = next((status for status in self._old.replica_statuses if status.role == TRAINER), None)
        memory = next((memory for memory in self._old.slots if memory.role == TRAINER), None)
        record = from_status(memory, failed=old.failed if old else 0, seconds=self._scale.pod_seconds)
        grant = self._grant or Grant(0)
        wanted = Wanted(
            self._view.name,
            TRAINER,
            size,
            self._rules(),
            nodes=grant.nodes_of(TRAINER),
            leavers=grant.leavers_of(TRAINER),
            taken=self._observed.taken | self._sight.strange,
        )
        return plan_pods(wanted, self._sight.slots, record, self._now)

    def _facts(self, plan: PodSetPlan, sizes: dict[str, int]) -> Facts:
        counts = self._sight.counts(TRAINER, plan.counts, sizes)
        running = {role: count.active + (count.succeeded if role == TRAINER else 0) for role, count in counts.items()}
        grant = self._grant or Grant(0)
        return Facts(
            held=sizes.get(TRAINER, 0) == 0,
            at_minimum=all(
                running.get(role.name, 0) >= min(sizes[role.name], replicas_at(role, self._view.min))
                for role in self._view.roles
            ),
            resized=grant.target != (self._scale.target or 0),
            settled=plan.leaving == 0 and all(running.get(role, 0) >= size for role, size in sizes.items()),
        )

    def _picture(
        self,
        plan: PodSetPlan,
        sizes: dict[str, int],
        facts: Facts,
        blocked: Refusal | None,
        grant: Grant | None = None,
    ) -> Picture:
        grant = grant or self._grant or Grant(0)
        may_reword = self._now - self._observed.worded_at >= WORDS_EVERY
        return Picture(
            view=self._view,
            scale=with_pause(entered(self._scale, grant, self._now, may_reword=may_reword), self._observed.pause),
            counts=self._sight.counts(TRAINER, plan.counts, sizes),
            plan=plan,
            facts=facts,
            queued=grant.target == 0 and not self._view.suspend,
            trouble=self._sight.trouble,
            root_cause=self._root_cause(plan) if facts.end == "failed" else None,
            may_reword=may_reword,
            refusals=worth_telling(self._observed, [blocked] if blocked else [], self._now - self._created),
            refused_edits=self._refused_edits,
            warnings=self._warnings,
        )

    def _root_cause(self, plan: PodSetPlan) -> TrainingRootCause:
        pods = [pod for pod in plan.given_up if isinstance(pod, SlotPod)]
        if not pods:
            return TrainingRootCause(pod=f"{self._view.name}-{TRAINER}-{plan.given_up[0]}")
        first = min(pods, key=lambda pod: (pod.started or pod.created) + pod.ran)
        return TrainingRootCause(pod=first.name, exit_code=first.exit_code, reason=first.reason, message=first.message)

    # What to do.

    def _reconcile_children(self, sizes: dict[str, int]) -> tuple[list[Intent], Refusal | None]:
        """In order, and no further than a name that is not ours: a job without its master is no job."""
        taken = {(one.kind, one.name) for one in waiting(self._observed, self._now) if one.foreign}
        trainers = any(pod.accepted for pod in self._sight.slots)
        children = [*self._children.secrets(), *self._children.wanted(sizes, trainers=trainers)]
        intents: list[Intent] = []
        idle = not any(sizes.values())
        for child in children:
            seen = self._observed.objects.get((child.kind, child.name))
            if (idle and seen is None) or is_made(child, self._observed, self._sight.trouble):
                continue
            stands = standing(seen, self._owner, self._view.uid)
            if stands == "foreign" or (seen is None and (child.kind, child.name) in taken):
                return intents, name_taken(child)
            if stands in ("leftover", "going"):
                return intents, still_going(child)
            intents += reconcile_child(child, seen, self._owner, self._view.uid, size_of(seen))
        return intents, None

    def _pod_intents(self, plan: PodSetPlan) -> list[Intent]:
        intents: list[Intent] = [Delete(Pod.KIND, pod.name, pod.uid) for pod in plan.delete]
        if self._batch is None:
            return intents  # the Job is being made: its pods are made when it has a uid
        owner = Owner("batch/v1", Job.KIND, self._batch.metadata.name, self._batch.metadata.uid)
        intents += [change(Pod.KIND, pod, [adoption(pod, owner)]) for pod in self._sight.orphans]
        intents += [Create(Pod.KIND, new.name, self._children.pod(new, owner)) for new in plan.create]
        return intents

    def _tally(self, plan: PodSetPlan) -> Change | None:
        if self._batch is None:
            return None
        end = self._old.phase if self._old.finished else ""
        tally = Tally(
            active=plan.counts.active + plan.counts.pending,
            ready=plan.ready,
            leaving=plan.leaving,
            succeeded=plan.counts.succeeded,
            failed=plan.counts.failed,
            suspended=self._view.suspend and not end,
            end=end,  # type: ignore[arg-type]  # a finished phase is one of the two
            reason="AllTrainersFinished" if end == "succeeded" else "TrainerFailed" if end else "",
            message=self._old.reason if end else "",
        )
        return status_change(self._batch, tally, self._now)

    def _outcome(
        self, picture: Picture, intents: Sequence[Intent], soft: Change | None, blocked: Refusal | None = None
    ) -> Outcome:
        status = draw(self._old, picture, self._now)
        held = waiting(self._observed, self._now)
        ready = without(intents, held)
        destroys = any(isinstance(intent, Delete) for intent in ready)
        leftover = self._now + LEFTOVER_PAUSE if blocked is not None else None
        return Outcome(
            status,
            urgent=decided(status, destroys) != decided(self._old, destroys),
            intents=tuple(ready),
            soft=_apart(soft, ready),
            events=tuple(told(self._old, status, picture.plan, self._rules().limit)),
            deeds=tuple(done(picture.plan)) if ready else (),
            wake=soonest(picture.plan.wake, leftover, *(refusal.retry_at for refusal in held)),
        )

    # The end.

    def _end(self, plan: PodSetPlan, sizes: dict[str, int], facts: Facts) -> Outcome:
        """The verdict stands in status before anything is released: whoever comes next finds a job that is over."""
        return self._outcome(self._picture(plan, sizes, facts, None), (), None)

    def _after_the_end(self) -> Outcome:
        """Master, parameter servers and etcd are let go, trainers that still run are stopped, the others stay."""
        plan = self._plan(0)
        sizes = {role.name: 0 for role in self._view.roles}
        running = [*plan.delete]
        intents: list[Intent] = [Delete(Pod.KIND, pod.name, pod.uid) for pod in running]
        for (kind, _), seen in sorted(self._observed.objects.items()):
            if standing(seen, self._owner, self._view.uid) == "ours" and size_of(seen):
                path = "/spec/parallelism" if kind == Job.KIND else "/spec/replicas"
                intents.append(change(kind, seen, [add(path, 0)]))
        counts = self._sight.counts(TRAINER, plan.counts, sizes)
        memory = to_status(TRAINER, plan.record)  # who ends after the end counts once, too
        status = replace(
            self._old,
            replica_statuses=tuple(
                replace(old, **_asdict(counts.get(old.role, Counts()))) for old in self._old.replica_statuses
            ),
            slots=(memory,) if memory is not None else (),
        )
        tally = self._tally(plan)
        gone = expiry(self._old.completion_time, self._job.spec.ttl_seconds_after_finished)
        if gone is not None and gone <= self._now:
            intents = [Delete(self._view.kind, self._view.name, self._view.uid)]
        return Outcome(status, intents=tuple(intents), soft=_apart(tally, intents), wake=gone)


def _apart(soft: Change | None, intents: Sequence[Intent]) -> tuple[Change, ...]:
    """Two changes of one object cannot both be of the version seen: the softer one waits for the next look."""
    touched = soft is not None and any((soft.kind, soft.name) == (one.kind, one.name) for one in intents)
    return () if soft is None or touched else (soft,)


def _asdict(counts: Counts) -> dict[str, int]:
    return {field: getattr(counts, field) for field in counts.__struct_fields__}
