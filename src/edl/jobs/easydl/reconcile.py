"""Reconciles one EasyDL job: (job, its JobResources, observed objects, grant, now) -> status, actions and events, of
the job and of every JobResource that names it.

First only the trainer; the others come, go and are resized as the JobResource that rules says, up to what the scheduler
grants. The same input gives the same answer; its own result gives nothing to do.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import asdict, replace

from edl.api.kubernetes.core import Pod
from edl.api.labels import LABEL_ROLE
from edl.api.status import ReplicaCounts, Scale
from edl.jobs.core.actions import Action, Change, Create, Delete
from edl.jobs.core.children import adoption, change
from edl.jobs.core.common_conditions import action_events
from edl.jobs.core.grant import Grant, as_granted, grant_in_status, with_grant
from edl.jobs.core.maintenance import reportable_refusals, with_pause
from edl.jobs.core.outcome import Outcome, Refusal
from edl.jobs.core.phase import Facts
from edl.jobs.core.pods.failures import Rules
from edl.jobs.core.pods.pod_set import DesiredPods
from edl.jobs.core.pods.slot_history import from_status, to_status
from edl.jobs.core.reconcile import JobReconcile
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.easydl.children import EasydlChildren
from edl.jobs.easydl.completion import completion_of
from edl.jobs.easydl.followed_plan import EVALUATOR, PS, TRAINER, WORKER, counted_role, followed, resource_in_effect
from edl.jobs.easydl.job_resource import JobResource
from edl.jobs.easydl.job_resource_status import plan_status_changes
from edl.jobs.easydl.role import ObservedRole, RoleReconcile
from edl.jobs.easydl.services import Services
from edl.jobs.easydl.status import StatusInputs, build_status, decision, status_events
from edl.jobs.easydl.types import EasydlStatus, ElasticJob
from edl.jobs.easydl.view import easydl_view

ROLES = (TRAINER, PS, EVALUATOR, WORKER)
_ONE_BY_ONE = (TRAINER, PS, EVALUATOR)
"""Roles whose slots are 0 to size - 1: who reads a list of them must find everybody in it."""
RESTARTS = 3
NO_PLAN = "the trainer runs; no JobResource names the job yet"


def reconcile(request: ReconcileRequest[ElasticJob]) -> Outcome:
    return EasydlReconcile(request).outcome()


class EasydlReconcile(JobReconcile[ElasticJob]):
    def __init__(self, request: ReconcileRequest[ElasticJob]) -> None:
        super().__init__(request)
        self._old: EasydlStatus = request.job.status
        self._ttl = request.job.spec.ttl_seconds_after_finished
        self._resource = self._granted_resource()
        self._plan = followed(self._job, self._resource)
        self._view = easydl_view(self._job, companion=self._resource, installation=request.settings.installation)
        self._scale = self._known_scale()
        self._grant = self._granted()
        self._view = as_granted(self._view, self._grant)
        self._children = EasydlChildren(self._job, self._view, self._plan, request.settings)

    # What is.

    def _granted_resource(self) -> JobResource | None:
        """The plan that rules. One by which the job's size counts another role is followed once the scheduler has
        granted something by it: what it granted before says nothing about that role."""
        resource, grant = resource_in_effect(self._job, self._request.companions), self._request.grant
        counts = counted_role(followed(self._job, resource))
        if counts == counted_role(self._old.plan) or (
            grant is not None and (WORKER in grant.roles) == (counts == WORKER)
        ):
            return resource
        return None

    def _known_scale(self) -> Scale:
        """What was granted in another role than the one that is counted now does not count."""
        scale = self._old.scale or Scale()
        same = counted_role(self._old.plan) == self._view.lead.name
        return scale if same else replace(scale, target=None, roles=None, roles_in_force=None)

    def _granted(self) -> Grant | None:
        grant, workers = self._request.grant, self._view.lead.name == WORKER
        about = grant is not None and (WORKER in grant.roles) == workers
        return grant if about else grant_in_status(self._scale)

    def _sizes(self, grant: Grant) -> dict[str, int]:
        """Who follows a plan has or had a trainer in its place. That is there while the plan waits for room, also after
        it was suspended: it may find a better one."""
        size = 0 if self._view.suspend else grant.target
        sizes = dict.fromkeys(ROLES, 0) | {role.name: grant.pods_of(role, size) for role in self._view.roles}
        if size == 0 and not self._view.suspend and self._view.lead.name == WORKER:
            sizes[TRAINER] = 1
        return sizes

    def _roles(self, sizes: Mapping[str, int], grant: Grant) -> list[RoleReconcile]:
        pods: dict[str, list[Pod]] = {}
        for pod in self._observed.pods:
            pods.setdefault(pod.metadata.labels.get(LABEL_ROLE, ""), []).append(pod)
        known = {update.name: update for update in self._resource.status.updates} if self._resource is not None else {}
        refused = (one.name for one in self._observed.refusals if one.kind == Pod.KIND and not one.foreign)
        unresizable = frozenset(refused)
        reconciles: list[RoleReconcile] = []
        for name in ROLES:
            memory = next((memory for memory in self._old.slots if memory.role == name), None)
            counts = (self._old.replica_statuses or {}).get(name, ReplicaCounts())
            seconds = self._scale.pod_seconds if name == WORKER else 0.0
            seen = ObservedRole(
                name,
                self._view.role(name),
                pods.get(name, ()),
                from_status(memory, failed=counts.failed, seconds=seconds),
                self._owner,
                known,
                self._request.settings.resizes,
                unresizable,
            )
            reconciles.append(RoleReconcile(seen, self._wanted(name, sizes[name], grant), self._children, self._now))
        self._pods_seen = [pod for role in reconciles for pod in role.observed_pods.slots]
        return reconciles

    def _wanted(self, name: str, size: int, grant: Grant) -> DesiredPods:
        return DesiredPods(
            self._view.name,
            name,
            size,
            Rules(limit=self._restarts(name) + 1),
            nodes=grant.nodes_of(name),
            leavers=grant.leavers_of(name),
            taken=self._observed.taken,
            alone=name == TRAINER,
            in_order=name in _ONE_BY_ONE,
            chief=name == WORKER,
        )

    def _restarts(self, name: str) -> int:
        spec = self._job.spec
        role = {PS: spec.parameter_server, WORKER: spec.worker, EVALUATOR: spec.evaluator, TRAINER: spec.trainer}[name]
        count = role.restart_count if role is not None else None
        return RESTARTS if count is None else count

    # What should be.

    def _planned(self, grant: Grant) -> Outcome:
        sizes = self._sizes(grant)
        roles = self._roles(sizes, grant)
        inputs = self._status_inputs(roles, sizes, grant)
        if inputs.facts.end:
            return self._outcome(replace(inputs, found=replace(inputs.found, queued=False)), ())
        children, blocked = Services(self._request, self._children, self._owner).reconcile(roles)
        pods = self._pod_actions(roles, create=blocked is None)
        refusals = reportable_refusals(
            self._observed, [blocked] if blocked is not None else (), self._now - self._created
        )
        inputs = replace(inputs, found=replace(inputs.found, refusals=refusals))
        return self._outcome(inputs, (*children, *pods), blocked)

    def _unplanned(self, grant: Grant) -> Outcome:
        roles = self._roles(self._sizes(grant), grant)
        inputs = self._status_inputs(roles, self._sizes(grant), grant)
        status = build_status(self._old, replace(inputs, scale=replace(inputs.scale, target=None)), self._now)
        events = tuple(status_events(self._old, status, roles))
        return Outcome(status, soft=tuple(self._plans(inputs)), events=events)

    def _status_inputs(self, roles: list[RoleReconcile], sizes: Mapping[str, int], grant: Grant) -> StatusInputs:
        queued = grant.target == 0 and not self._view.suspend
        by_name = {role.name: role for role in roles}
        workers = by_name[WORKER]
        hopeless = self._hopeless(workers.observed_pods.slots, workers.plan.record)
        end, code, message, cause = completion_of(by_name, hopeless=hopeless)
        running = {role.name: role.plan.counts.active + role.plan.counts.succeeded for role in roles}
        ready = {role.name: role.plan.ready + role.plan.counts.succeeded for role in roles}
        least_size = self._view.least
        least = {role.name: min(sizes[role.name], grant.least_pods(role, least_size)) for role in self._view.roles}
        scale = with_grant(
            with_pause(self._scale, self._observed.pause),
            grant,
            self._now,
            refresh_message=self._refresh_message,
            lead=self._view.lead.name,
        )
        facts = Facts(
            end=end,  # type: ignore[arg-type]  # one of the three
            held=not any(sizes.values()),
            at_minimum=not queued and all(running[role] >= count for role, count in least.items()),
            ready=all(ready[role] >= count for role, count in least.items()),
            resized=grant.target != (self._scale.target or 0),
            settled=not any(role.plan.leaving or role.plan.coming for role in roles)
            and all(running[name] >= size for name, size in sizes.items()),
        )
        return StatusInputs(
            view=self._view,
            plan=self._plan,
            scale=scale,
            roles=roles,
            facts=facts,
            found=self._common_facts(grant, scale),
            awaits="" if self._plan.source else NO_PLAN,
            end_message=message,
            end_code=code,
            root_cause=cause,
            refresh_message=self._refresh_message,
        )

    # What to do.

    def _pod_actions(self, roles: Sequence[RoleReconcile], *, create: bool) -> list[Action]:
        actions: list[Action] = []
        for role in roles:
            actions += [Delete(Pod.KIND, pod.name, pod.uid) for pod in role.plan.delete]
            deleted = {pod.name for pod in role.plan.delete}
            orphans = [pod for pod in role.observed_pods.orphans if pod.metadata.name not in deleted]
            actions += [change(Pod.KIND, pod, [adoption(pod, self._owner)]) for pod in orphans]
            adopted = {pod.metadata.name for pod in orphans}
            actions += [one for one in role.resizes if one.name not in adopted | deleted]
            if create and role.role is not None:
                made = [(new.name, self._children.pod(role.role, new, self._owner)) for new in role.plan.create]
                actions += [Create(Pod.KIND, name, body) for name, body in made]
        return actions

    def _plans(self, inputs: StatusInputs) -> list[Change]:
        return plan_status_changes(self._job, self._request.companions, inputs, self._now)

    def _outcome(self, inputs: StatusInputs, actions: Sequence[Action], blocked: Refusal | None = None) -> Outcome:
        status = build_status(self._old, inputs, self._now)
        ready = self._ready(actions)
        plans = self._plans(inputs)
        if any(role.news for role in inputs.roles):  # what is refused must be known before its pod goes
            ready, plans = [*plans, *ready], []
        times = [when for role in inputs.roles for when in (role.plan.requeue_at, role.requeue_at)]
        resized = [change.name for role in inputs.roles for change in role.resizes if change.subresource]
        return self._decided(
            status,
            ready,
            decision=decision,
            soft=plans,
            events=status_events(self._old, status, inputs.roles),
            action_events=action_events([role.plan for role in inputs.roles], resized),
            requeue_at=(*times, self._leftover_retry(blocked)),
        )

    # The end.

    def _released(self) -> Outcome:
        """Pods that still run are stopped and addresses let go; pods that ended stay for their logs."""
        sizes = dict.fromkeys(ROLES, 0)
        roles = self._roles(sizes, Grant(0))
        counts = {role.name: ReplicaCounts(**asdict(role.plan.counts)) for role in roles}
        memories = (to_status(role.name, role.plan.record) for role in roles)
        status = replace(
            self._old,
            replica_statuses={name: counts[name] for name in self._old.replica_statuses or {} if name in counts},
            slots=tuple(memory for memory in memories if memory is not None),  # who ends after the end counts once, too
        )
        actions, _ = Services(self._request, self._children, self._owner).reconcile(roles)
        actions += [Delete(Pod.KIND, pod.name, pod.uid) for role in roles for pod in role.plan.delete]
        inputs = self._status_inputs(roles, sizes, Grant(0))
        over = replace(inputs, facts=replace(inputs.facts, end=self._old.phase.lower()))
        return Outcome(status, actions=tuple(actions), soft=tuple(self._plans(over)))
