"""Reconciles one PyTorch ElasticJob: (job, observed objects, grant, now) -> status, actions and events.

Workers are equals in slots. The job fails only when fewer than minReplicas are left that may still work (design 004);
it has succeeded when one has finished and none runs any more. The same input gives the same answer.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from edl.api import annotations
from edl.api.kubernetes import duration
from edl.api.kubernetes.core import Pod, Service
from edl.api.status import Scale
from edl.jobs.core.actions import Action, Create, Delete
from edl.jobs.core.children import (
    ObservedChild,
    adoption,
    change,
    own_services,
    ownership,
    reconcile_child,
    redirected,
)
from edl.jobs.core.grant import Grant, grant_in_status, with_grant
from edl.jobs.core.maintenance import already_created, reportable_refusals, with_pause
from edl.jobs.core.outcome import Outcome, Refusal
from edl.jobs.core.pods.failures import NO_LIMIT, Rules
from edl.jobs.core.pods.observed_pods import ObservedPods
from edl.jobs.core.pods.pod_set import DesiredPods, PodSetPlan, plan_pods
from edl.jobs.core.pods.slot_history import SlotHistory, from_status, to_status
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.pods.slots import SlotPod
from edl.jobs.core.reconcile import JobReconcile
from edl.jobs.core.refusals import name_taken, still_terminating
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.pytorch.children import WorkerChildren
from edl.jobs.pytorch.completion import completion_of, next_deadline
from edl.jobs.pytorch.environment import WORKER
from edl.jobs.pytorch.status import (
    ROLE,
    StatusInputs,
    action_events,
    build_status,
    decision,
    replica_counts,
    status_events,
)
from edl.jobs.pytorch.types import ElasticJob
from edl.jobs.pytorch.view import pytorch_view

LIMIT = 6  # failures in a row after which a worker is given up, if the job does not say
PERMANENT = (1, 127)  # exit codes that restartPolicy ExitCode does not try again


def rules(job: ElasticJob) -> Rules:
    policy, retries = job.spec.replica_specs.worker.restart_policy, job.spec.backoff_limit
    if policy == "Never":
        return Rules(limit=1, equals=True)
    limit = retries + 1 if retries is not None else NO_LIMIT if policy == "Always" else LIMIT
    permanent = PERMANENT if policy == "ExitCode" else None
    return Rules(limit, permanent, again=policy == "Always", equals=True)


def reconcile(request: ReconcileRequest[ElasticJob]) -> Outcome:
    return PytorchReconcile(request).outcome()


class PytorchReconcile(JobReconcile[ElasticJob]):
    def __init__(self, request: ReconcileRequest[ElasticJob]) -> None:
        super().__init__(request)
        self._old = request.job.status
        self._ttl = request.job.spec.ttl_seconds_after_finished
        self._view = pytorch_view(request.job, installation=request.settings.installation)
        self._scale = self._old.scale or Scale()
        self._grant = request.grant or grant_in_status(self._scale)
        self._observed_pods = ObservedPods(
            request.observed.pods, self._view.name, WORKER, self._view.uid, self._now, key=request.token
        )
        self._pods_seen = self._observed_pods.slots
        self._record = self._slot_history()
        self._size = 0 if self._view.suspend or self._grant is None else self._grant.target
        self._attempt = self._old.attempt + (1 if self._stopped() else 0)
        self._children = WorkerChildren(
            request.job, self._view, request.settings, self._attempt, request.token, request.ca
        )

    def _slot_history(self) -> SlotHistory:
        counts = (self._old.replica_statuses or {}).get(ROLE)
        memory = next((memory for memory in self._old.slots if memory.role == WORKER), None)
        return from_status(memory, failed=counts.failed if counts else 0, seconds=self._scale.pod_seconds)

    def _stopped(self) -> bool:
        """All its workers are to go now, and those that come later are another attempt."""
        held = {"Queued", "Suspended"}
        before = any(one.type in held and one.status == "True" for one in self._old.conditions)
        return self._size == 0 and not before and (self._record.peak > 0 or bool(self._observed_pods.slots))

    # What should be.

    def _planned(self, grant: Grant) -> Outcome:
        plan = self._plan(self._size)
        inputs = self._status_inputs(plan, grant)
        if inputs.completion is not None:
            return self._outcome(inputs, ())
        children, blocked = self._reconcile(plan)
        return self._outcome(self._with_refusals(inputs, blocked), (*self._secret(), *self._pods(plan), *children))

    def _unplanned(self, grant: Grant) -> Outcome:
        inputs = replace(self._status_inputs(self._plan(0), grant), decided=False)
        status = build_status(self._old, replace(inputs, scale=replace(inputs.scale, target=None)), self._now)
        events = tuple(status_events(self._old, status, inputs))
        return Outcome(status, events=events, requeue_at=next_deadline(self._job, self._old))

    def _plan(self, size: int) -> PodSetPlan:
        grant = self._grant or Grant(0)
        wanted = DesiredPods(
            self._view.name,
            WORKER,
            size,
            rules(self._job),
            nodes=grant.nodes_of(WORKER),
            leavers=grant.leavers_of(WORKER),
            taken=self._observed.taken | self._observed_pods.unmatched,
            stalled=frozenset(
                pod.uid for pod in self._observed_pods.slots if self._silent(pod) >= self._stall_timeout()
            ),
        )
        return plan_pods(wanted, self._observed_pods.slots, self._record, self._now)

    def _stall_timeout(self) -> float:
        text = self._job.metadata.annotations.get(annotations.STALL_TIMEOUT)
        return duration.seconds(text) if text else float("inf")

    def _silent(self, pod: SlotPod) -> float:
        """How long a worker that once reported progress has reported none."""
        return self._observed.silence.get(pod.name, 0.0) if pod.live else 0.0

    def _status_inputs(self, plan: PodSetPlan, grant: Grant) -> StatusInputs:
        scale = with_grant(self._scale, grant, self._now, refresh_message=self._refresh_message)
        return StatusInputs(
            view=self._view,
            scale=with_pause(scale, self._observed.pause),
            plan=self._worded(plan),
            size=self._size,
            resized=grant.target != (self._scale.target or 0),
            found=self._common_facts(grant, scale),
            attempt=self._attempt,
            startup_problem=self._observed_pods.startup_problem,
            completion=completion_of(
                self._job,
                self._old,
                plan,
                rules(self._job),
                self._size,
                self._now,
                hopeless=self._hopeless(self._observed_pods.slots, plan.record),
            ),
            refresh_message=self._refresh_message,
            change=self._observed.change,
        )

    def _worded(self, plan: PodSetPlan) -> PodSetPlan:
        """A stalled worker has no last words; we say how long it was silent."""
        silence = self._observed.silence
        words = {pod.name: f"for {silence[pod.name]:.0f} s" for pod in self._observed_pods.slots if pod.name in silence}
        failures = tuple(
            replace(one, pod=replace(one.pod, message=words[one.pod.name]))
            if one.pod.name in words and one.pod.exit_code is None
            else one
            for one in plan.failures
        )
        return replace(plan, failures=failures)

    def _with_refusals(self, inputs: StatusInputs, blocked: Sequence[Refusal]) -> StatusInputs:
        refusals = reportable_refusals(self._observed, blocked, self._now - self._created)
        return replace(inputs, found=replace(inputs.found, refusals=refusals))

    # What to do.

    def _secret(self) -> list[Action]:
        secret = self._children.secret() if self._size else None
        if secret is None or already_created(secret, self._observed, self._observed_pods.startup_problem):
            return []
        return reconcile_child(secret, None, self._owner, self._view.uid, None)

    def _pods(self, plan: PodSetPlan) -> list[Action]:
        actions: list[Action] = [Delete(Pod.KIND, pod.name, pod.uid) for pod in plan.delete]
        actions += [change(Pod.KIND, pod, [adoption(pod, self._owner)]) for pod in self._observed_pods.orphans]
        return actions + [Create(Pod.KIND, new.name, self._children.pod(new, self._owner)) for new in plan.create]

    def _reconcile(self, plan: PodSetPlan) -> tuple[list[Action], list[Refusal]]:
        """A Service for every slot that the job has, from its first pod on. A name that is not ours is told of, and no
        reason to stop."""
        attempts = self._slots(plan)
        actions: list[Action] = []
        blocked: list[Refusal] = []
        for index, attempt in sorted(attempts.items()):
            child = self._children.service(index, attempt)
            seen = self._observed.objects.get((child.kind, child.name))
            owned = ownership(seen, self._owner, self._view.uid)
            if owned == "absent" and not (index in plan.holders and plan.holders[index].accepted):
                continue  # it would lead nowhere, and the cluster would look through all pods for it once more
            if owned in ("absent", "orphan"):
                actions += reconcile_child(child, seen, self._owner, self._view.uid, None)
            elif owned == "ours" and isinstance(seen, Service):
                actions += redirected(seen, self._children.selector(index, attempt))
            else:
                blocked.append(name_taken(child) if owned == "foreign" else still_terminating(child))
        return actions + self._left(attempts), blocked

    def _slots(self, plan: PodSetPlan) -> dict[int, int]:
        """Slots that the job has, with the attempt that each is at: also those that wait, are done or given up."""
        record = plan.record
        slots = {index: record.slot(index).attempt for index in record.done}
        slots |= {one if isinstance(one, int) else one.index: 0 for one in plan.given_up}
        slots |= {index: record.slot(index).attempt for index in plan.waits}
        slots |= {index: pod.attempt for index, pod in plan.holders.items()}
        return slots | {new.index: new.attempt for new in plan.create}

    def _left(self, attempts: dict[int, int]) -> list[Action]:
        """Services of slots that the job no longer has."""
        kept = {slot_name(self._view.name, WORKER, index) for index in attempts}
        return [Delete(Service.KIND, name, seen.metadata.uid) for name, seen in self._services() if name not in kept]

    def _services(self) -> list[tuple[str, ObservedChild]]:
        return own_services(self._observed.objects, self._owner, self._view.uid)

    def _outcome(self, inputs: StatusInputs, actions: Sequence[Action]) -> Outcome:
        status = build_status(self._old, inputs, self._now)
        ready = self._ready(actions)
        return self._decided(
            status,
            ready,
            decision=decision,
            events=status_events(self._old, status, inputs),
            action_events=action_events(ready),
            requeue_at=(inputs.plan.requeue_at, next_deadline(self._job, status), self._next_stall()),
        )

    def _next_stall(self) -> float | None:
        """Reports bring about no reconcile. Who has not been heard of yet may have spoken by then."""
        timeout = self._stall_timeout()
        waits = [timeout - self._silent(pod) for pod in self._observed_pods.slots if pod.live]
        return self._now + max(0.0, min(waits)) if waits and timeout != float("inf") else None

    # The end.

    def _released(self) -> Outcome:
        """Pods stay for their logs, unless cleanPodPolicy says otherwise; what they come to is still counted."""
        live = [pod for pod in self._observed_pods.slots if pod.live]
        plan = self._plan(len(live))
        memory = to_status(WORKER, plan.record)
        status = replace(
            self._old,
            replica_statuses={ROLE: replica_counts(replace(plan.counts, desired=0))},
            slots=(memory,) if memory is not None else (),
        )
        lingering = [pod for pod in self._observed_pods.slots if pod.lingers and not pod.leaving]
        actions = (*self._cleaned(live), *(Delete(Pod.KIND, pod.name, pod.uid) for pod in lingering))
        return Outcome(status, actions=actions, action_events=tuple(action_events(actions)))

    def _cleaned(self, live: Sequence[SlotPod]) -> list[Action]:
        policy = self._job.spec.clean_pod_policy
        if policy not in ("Running", "All"):
            return []
        pods = [pod for pod in self._observed_pods.slots if not pod.leaving] if policy == "All" else live
        names = {slot_name(self._view.name, WORKER, pod.index) for pod in pods}
        services = [
            Delete(Service.KIND, name, seen.metadata.uid)
            for name, seen in self._services()
            if policy == "All" or name in names
        ]
        return [*(Delete(Pod.KIND, pod.name, pod.uid) for pod in pods), *services]
