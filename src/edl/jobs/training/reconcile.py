"""Reconciles one TrainingJob: (job, observed objects, grant, now) -> status, actions and events.

Everything about the kind meets here and only here: children in their order, trainers by slots, the rules of failure and
success, release at the end. The same input gives the same answer; its own result gives nothing to do.
"""

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from edl.api.kubernetes.core import Job, Pod
from edl.api.labels import BEGUN_WITH
from edl.jobs.core.actions import Action, Change, Create, Delete, add
from edl.jobs.core.children import Owner, adoption, change, ownership, reconcile_child, size_of
from edl.jobs.core.common_conditions import action_events, with_wait
from edl.jobs.core.grant import Grant, as_granted, grant_in_status, with_grant
from edl.jobs.core.maintenance import already_created, backing_off, reportable_refusals, with_pause
from edl.jobs.core.outcome import Outcome, Refusal
from edl.jobs.core.phase import Facts
from edl.jobs.core.pods.failures import Rules
from edl.jobs.core.pods.observed_pods import ObservedPods
from edl.jobs.core.pods.pod_set import Counts, DesiredPods, PodSetPlan, plan_pods
from edl.jobs.core.pods.slot_history import from_status, to_status
from edl.jobs.core.reconcile import JobReconcile
from edl.jobs.core.refusals import name_taken, still_terminating
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.training.batch_job import TrainerCounts, status_change
from edl.jobs.training.children import TrainingChildren
from edl.jobs.training.completion import Completion, completion_of
from edl.jobs.training.edits import without_refused_edits
from edl.jobs.training.roles import TRAINER
from edl.jobs.training.status import StatusInputs, build_status, decision, status_events
from edl.jobs.training.types import TrainingEndedPod, TrainingJob, TrainingScale
from edl.jobs.training.view import training_view


def reconcile(request: ReconcileRequest[TrainingJob]) -> Outcome:
    return TrainingReconcile(request).outcome()


class TrainingReconcile(JobReconcile[TrainingJob]):
    _scale_field = "scale_status"
    _scale_type = TrainingScale
    _ended_pod_type = TrainingEndedPod

    def __init__(self, request: ReconcileRequest[TrainingJob]) -> None:
        super().__init__(request)
        job, observed = request.job, request.observed
        batch = observed.objects.get((Job.KIND, f"{job.metadata.name}-{TRAINER}"))
        note = batch.metadata.annotations.get(BEGUN_WITH) if batch is not None else None
        self._job, refused_edits = (job, ()) if job.status.in_force else without_refused_edits(job, note)
        self._refused_edits = request.refused_edits + refused_edits
        self._old = job.status
        self._ttl = self._job.spec.ttl_seconds_after_finished
        self._scale = self._old.scale_status or TrainingScale()
        self._grant = request.grant or grant_in_status(self._scale)
        self._view = as_granted(training_view(self._job, installation=request.settings.installation), self._grant)
        self._children = TrainingChildren(self._job, self._view, request.settings, request.token, request.ca)
        self._batch = self._own_batch_job()
        batch_uid = self._batch.metadata.uid if self._batch is not None else ""
        forgiven = {pod: count for memory in self._old.slots for pod, count in (memory.forgiven or {}).items()}
        self._observed_pods = ObservedPods(
            observed.pods,
            self._view.name,
            TRAINER,
            batch_uid,
            self._now,
            key=request.token,
            workloads=self._workloads(),
            forgiven=forgiven,
        )
        self._pods_seen = self._observed_pods.every

    # What is.

    def _own_batch_job(self) -> Job | None:
        seen = self._observed.objects.get((Job.KIND, self._children.name(TRAINER)))
        ours = ownership(seen, self._owner, self._view.uid) in ("ours", "orphan")
        return seen if ours and isinstance(seen, Job) else None

    def _workloads(self) -> set[str]:
        """Uids of what makes the pods of the other roles, also of what is on its way out."""
        owned = (seen for seen in self._observed.objects.values() if seen is not self._batch)
        return {
            seen.metadata.uid
            for seen in owned
            if ownership(seen, self._owner, self._view.uid) in ("ours", "orphan", "going")
        }

    # What should be.

    def _planned(self, grant: Grant) -> Outcome:
        size = 0 if self._view.suspend else grant.target
        sizes = {role.name: grant.pods_of(role, size) for role in self._view.roles}
        plan = self._plan(size)
        hopeless = self._hopeless(self._observed_pods.slots, plan.record) if size else None
        completion = completion_of(self._view.name, plan, self._observed_pods, self._limit(), hopeless=hopeless)
        if completion is not None:
            return self._end(plan, sizes, completion)
        children, blocked = self._reconcile_children(sizes)
        pods = self._pod_actions(plan) if blocked is None else ()
        inputs = self._status_inputs(plan, sizes, self._facts(plan, sizes), blocked)
        return self._outcome(inputs, (*children, *pods), self._batch_job_status(plan), blocked)

    def _unplanned(self, grant: Grant) -> Outcome:
        inputs = self._status_inputs(self._plan(0), {}, Facts(held=True), None, grant)
        status = build_status(self._old, replace(inputs, scale=replace(inputs.scale, target=None)), self._now)
        return Outcome(status, events=tuple(status_events(self._old, status, inputs.plan, 0)))

    def _rules(self) -> Rules:
        """Not fault tolerant: the first failure is the last."""
        return Rules(self._limit() if self._job.spec.fault_tolerant else 1)

    def _limit(self) -> int:
        return max(1, self._job.spec.backoff_limit or 0)

    def _plan(self, size: int) -> PodSetPlan:
        old = next((status for status in self._old.replica_statuses if status.role == TRAINER), None)
        memory = next((memory for memory in self._old.slots if memory.role == TRAINER), None)
        record = from_status(memory, failed=old.failed if old else 0, seconds=self._scale.pod_seconds)
        grant = self._grant or Grant(0)
        wanted = DesiredPods(
            self._view.name,
            TRAINER,
            size,
            self._rules(),
            nodes=grant.nodes_of(TRAINER),
            leavers=grant.leavers_of(TRAINER),
            taken=self._observed.taken | self._observed_pods.unmatched,
        )
        return plan_pods(wanted, self._observed_pods.slots, record, self._now)

    def _facts(self, plan: PodSetPlan, sizes: dict[str, int]) -> Facts:
        counts = self._observed_pods.counts(TRAINER, plan.counts, sizes)
        done = {TRAINER: plan.counts.succeeded}
        running = {role: count.active + done.get(role, 0) for role, count in counts.items()}
        ready = {role: self._observed_pods.ready(role) for role in counts} | {TRAINER: plan.ready + done[TRAINER]}
        grant, least_size = self._grant or Grant(0), self._view.least
        least = {role.name: min(sizes[role.name], grant.least_pods(role, least_size)) for role in self._view.roles}
        return Facts(
            held=sizes.get(TRAINER, 0) == 0,
            at_minimum=all(running.get(role, 0) >= count for role, count in least.items()),
            ready=all(ready.get(role, 0) >= count for role, count in least.items()),
            resized=grant.target != (self._scale.target or 0),
            settled=plan.leaving == 0 and all(running.get(role, 0) >= size for role, size in sizes.items()),
        )

    def _status_inputs(
        self,
        plan: PodSetPlan,
        sizes: dict[str, int],
        facts: Facts,
        blocked: Refusal | None,
        grant: Grant | None = None,
        completion: Completion | None = None,
    ) -> StatusInputs:
        grant = grant or self._grant or Grant(0)
        refusals = reportable_refusals(self._observed, [blocked] if blocked else [], self._now - self._created)
        scale = with_grant(self._scale, grant, self._now, refresh_message=self._refresh_message, lead=TRAINER)
        common = replace(self._common_facts(grant, scale), refusals=refusals, refused_edits=self._refused_edits)
        common = replace(common, state_wait="") if completion is not None else common
        return StatusInputs(
            view=self._view,
            scale=with_wait(with_pause(scale, self._observed.pause), common),
            counts=self._observed_pods.counts(TRAINER, plan.counts, sizes),
            plan=plan,
            facts=facts,
            found=common,
            startup_problem=self._observed_pods.startup_problem,
            forgiven=dict(self._observed_pods.forgiven()),
            completion=completion,
            refresh_message=self._refresh_message,
        )

    # What to do.

    def _reconcile_children(self, sizes: dict[str, int]) -> tuple[list[Action], Refusal | None]:
        """In order, and no further than a name that is not ours: a job without its master is no job."""
        taken = {(one.kind, one.name) for one in backing_off(self._observed, self._now) if one.foreign}
        trainers = any(pod.accepted for pod in self._observed_pods.slots)
        nodes = self._grant.nodes if self._grant is not None else {}
        children = [*self._children.secrets(), *self._children.wanted(sizes, nodes, trainers=trainers)]
        actions: list[Action] = []
        idle = not any(sizes.values())
        for child in children:
            seen = self._observed.objects.get((child.kind, child.name))
            if (idle and seen is None) or already_created(child, self._observed, self._observed_pods.startup_problem):
                continue
            owned = ownership(seen, self._owner, self._view.uid)
            if owned == "foreign" or (seen is None and (child.kind, child.name) in taken):
                return actions, name_taken(child)
            if owned in ("leftover", "going"):
                return actions, still_terminating(child)
            actions += reconcile_child(child, seen, self._owner, self._view.uid, size_of(seen))
        return actions, None

    def _pod_actions(self, plan: PodSetPlan) -> list[Action]:
        actions: list[Action] = [Delete(Pod.KIND, pod.name, pod.uid) for pod in plan.delete]
        if self._batch is None:
            return actions  # the Job is being made: its pods are made when it has a uid
        owner = Owner("batch/v1", Job.KIND, self._batch.metadata.name, self._batch.metadata.uid, self._owner.key)
        actions += [change(Pod.KIND, pod, [adoption(pod, owner)]) for pod in self._observed_pods.orphans]
        actions += [Create(Pod.KIND, new.name, self._children.pod(new, owner)) for new in plan.create]
        return actions

    def _batch_job_status(self, plan: PodSetPlan) -> Change | None:
        if self._batch is None:
            return None
        end = self._old.phase if self._old.finished else ""
        batch_status = TrainerCounts(
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
        return status_change(self._batch, batch_status, self._now)

    def _outcome(
        self, inputs: StatusInputs, actions: Sequence[Action], soft: Change | None, blocked: Refusal | None = None
    ) -> Outcome:
        status = build_status(self._old, inputs, self._now)
        ready = self._ready(actions)
        return self._decided(
            status,
            ready,
            decision=decision,
            soft=_apart(soft, ready),
            events=status_events(self._old, status, inputs.plan, self._rules().limit),
            action_events=action_events([inputs.plan]),
            requeue_at=(inputs.plan.requeue_at, self._observed_pods.requeue_at, self._leftover_retry(blocked)),
        )

    # The end.

    def _end(self, plan: PodSetPlan, sizes: dict[str, int], completion: Completion) -> Outcome:
        """The end is recorded in status before anything is released: a successor finds a job that is over."""
        facts = replace(self._facts(plan, sizes), end=completion.phase)
        return self._outcome(self._status_inputs(plan, sizes, facts, None, completion=completion), (), None)

    def _released(self) -> Outcome:
        """Master, parameter servers and etcd are let go, trainers that still run are stopped, the others stay."""
        plan = self._plan(0)
        sizes = {role.name: 0 for role in self._view.roles}
        actions: list[Action] = [Delete(Pod.KIND, pod.name, pod.uid) for pod in plan.delete]
        for (kind, _), seen in sorted(self._observed.objects.items()):
            if ownership(seen, self._owner, self._view.uid) == "ours" and size_of(seen):
                path = "/spec/parallelism" if kind == Job.KIND else "/spec/replicas"
                actions.append(change(kind, seen, [add(path, 0)]))
        counts = self._observed_pods.counts(TRAINER, plan.counts, sizes)
        memory = to_status(TRAINER, plan.record)  # who ends after the end counts once, too
        status = replace(
            self._old,
            replica_statuses=tuple(
                replace(old, **asdict(counts.get(old.role, Counts()))) for old in self._old.replica_statuses
            ),
            slots=(memory,) if memory is not None else (),
        )
        return Outcome(status, actions=tuple(actions), soft=_apart(self._batch_job_status(plan), actions))


def _apart(soft: Change | None, actions: Sequence[Action]) -> tuple[Change, ...]:
    """Two changes of one object cannot both be of the version seen: the softer one waits for the next reconcile."""
    touched = soft is not None and any((soft.kind, soft.name) == (one.kind, one.name) for one in actions)
    return () if soft is None or touched else (soft,)
