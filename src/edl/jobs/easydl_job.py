"""One look at an EasyDL job: (job, its JobResources, what is seen of it, what was granted to it, now) -> what to do and
what to say, of the job and of every JobResource that names it.

First only the trainer; the others come, go and are resized as the JobResource that rules says, up to what the scheduler
grants. The same input gives the same answer; its own result gives nothing to do.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from edl.api import timestamp, views
from edl.api.core import Pod
from edl.api.easydl_job import EasydlStatus, ElasticJob
from edl.api.easydl_plan import EVALUATOR, PS, TRAINER, WORKER, counted, followed, ruling
from edl.api.job_resource import JobResource
from edl.api.roles import replicas_at
from edl.api.status import ReplicaCounts, Scale
from edl.jobs.children import Owner, adoption, change
from edl.jobs.conditions import WORDS_EVERY
from edl.jobs.easydl_children import EasydlChildren
from edl.jobs.easydl_end import verdict
from edl.jobs.easydl_plan_status import tell_plans
from edl.jobs.easydl_role import RoleLook, Sightings
from edl.jobs.easydl_services import Services
from edl.jobs.easydl_status import Picture, decided, done, draw, told
from edl.jobs.failures import Rules
from edl.jobs.grant import Grant, entered, remembered
from edl.jobs.intents import Change, Create, Delete, Intent
from edl.jobs.judgement import Circumstances
from edl.jobs.look import Look
from edl.jobs.outcome import Outcome, Refusal
from edl.jobs.phase import Facts
from edl.jobs.podset import Wanted
from edl.jobs.record import from_status
from edl.jobs.slots import ROLE
from edl.jobs.upkeep import expiry, soonest, waiting, with_pause, worth_telling

ROLES = (TRAINER, PS, EVALUATOR, WORKER)
_ONE_BY_ONE = (TRAINER, PS, EVALUATOR)
"""Roles whose slots are 0 to size - 1: who reads a list of them must find everybody in it."""
LEFTOVER_PAUSE = 1.0
UNDECIDED_FOR = 1.0  # a new job's first word waits so long for the scheduler's, so that both are one write
RESTARTS = 3
FAILURE_PAUSE = 2.0
NO_PLAN = "the trainer runs; no JobResource names the job yet"


class EasydlLook:
    def __init__(self, look: Look[ElasticJob]) -> None:
        self._look, self._job, self._now = look, look.job, look.now
        self._old: EasydlStatus = look.job.status
        self._observed, self._settings = look.observed, look.settings
        self._ruler = self._granted_ruler()
        self._plan = followed(self._job, self._ruler)
        self._view = views.view(self._job, resource=self._ruler, installation=look.settings.installation)
        self._owner = Owner(self._view.api_version, self._view.kind, self._view.name, self._view.uid)
        self._children = EasydlChildren(self._job, self._view, self._plan, look.settings)
        self._scale = self._known_scale()
        self._grant = self._granted()
        self._created = timestamp.seconds(self._job.metadata.creation_timestamp or timestamp.text(self._now))

    # What is.

    def _granted_ruler(self) -> JobResource | None:
        """The plan that rules. One by which the job's size counts another role is followed once the scheduler has
        granted something by it: what it granted before says nothing about that role."""
        ruler, grant = ruling(self._job, self._look.companions), self._look.grant
        counts = counted(followed(self._job, ruler))
        if counts == counted(self._old.plan) or (grant is not None and (WORKER in grant.roles) == (counts == WORKER)):
            return ruler
        return None

    def _known_scale(self) -> Scale:
        """What was granted in another role than the one that is counted now does not count."""
        scale = self._old.scale or Scale()
        same = counted(self._old.plan) == self._view.lead.name
        return scale if same else replace(scale, target=None)

    def _granted(self) -> Grant | None:
        grant, workers = self._look.grant, self._view.lead.name == WORKER
        about = grant is not None and (WORKER in grant.roles) == workers
        return grant if about else remembered(self._scale)

    def _sizes(self, grant: Grant) -> dict[str, int]:
        """A trainer that has its place keeps it while its plan waits for room: it may find a better one."""
        size = 0 if self._view.suspend else grant.target
        sizes = dict.fromkeys(ROLES, 0) | {role.name: replicas_at(role, size) for role in self._view.roles}
        if size == 0 and not self._view.suspend and self._view.lead.name == WORKER:
            sizes[TRAINER] = (self._old.replica_statuses or {}).get(TRAINER, ReplicaCounts()).desired
        return sizes

    def _roles(self, sizes: Mapping[str, int], grant: Grant) -> list[RoleLook]:
        pods: dict[str, list[Pod]] = {}
        for pod in self._observed.pods:
            pods.setdefault(pod.metadata.labels.get(ROLE, ""), []).append(pod)
        known = {update.name: update for update in self._ruler.status.updates} if self._ruler is not None else {}
        refused = (one.name for one in self._observed.refusals if one.kind == Pod.KIND and not one.foreign)
        unresizable = frozenset(refused)
        looks: list[RoleLook] = []
        for name in ROLES:
            memory = next((memory for memory in self._old.slots if memory.role == name), None)
            counts = (self._old.replica_statuses or {}).get(name, ReplicaCounts())
            seconds = self._scale.pod_seconds if name == WORKER else 0.0
            seen = Sightings(
                name,
                self._view.role(name),
                pods.get(name, ()),
                from_status(memory, failed=counts.failed, seconds=seconds),
                self._view.uid,
                known,
                self._settings.resizes,
                unresizable,
            )
            looks.append(RoleLook(seen, self._wanted(name, sizes[name], grant), self._children, self._now))
        return looks

    def _wanted(self, name: str, size: int, grant: Grant) -> Wanted:
        return Wanted(
            self._view.name,
            name,
            size,
            Rules(limit=self._restarts(name) + 1, pause=FAILURE_PAUSE),
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

    def outcome(self) -> Outcome:
        if self._old.finished:
            return self._after_the_end()
        if self._grant is None:
            return self._undecided()
        sizes = self._sizes(self._grant)
        roles = self._roles(sizes, self._grant)
        picture = self._picture(roles, sizes, self._grant)
        if picture.facts.end:
            return self._outcome(replace(picture, found=replace(picture.found, queued=False)), ())
        children, blocked = Services(self._look, self._children, self._owner).reconcile(roles)
        pods = self._pod_intents(roles, create=blocked is None)
        refusals = worth_telling(self._observed, [blocked] if blocked is not None else (), self._now - self._created)
        picture = replace(picture, found=replace(picture.found, refusals=refusals))
        return self._outcome(picture, (*children, *pods), blocked)

    def _undecided(self) -> Outcome:
        """Nobody has planned for it yet. It says so itself only if nobody does for a while."""
        since = max(self._created, self._observed.worded_at)
        if self._now - since < UNDECIDED_FOR:
            return Outcome(self._old, wake=since + UNDECIDED_FOR)
        grant = Grant(0, "Waiting", "the scheduler has not looked at it yet")
        roles = self._roles(self._sizes(grant), grant)
        picture = self._picture(roles, self._sizes(grant), grant)
        status = draw(self._old, replace(picture, scale=replace(picture.scale, target=None)), self._now)
        events = tuple(told(self._old, status, roles))
        return Outcome(status, urgent=self._old.phase == "", soft=tuple(self._plans(picture)), events=events)

    def _picture(self, roles: list[RoleLook], sizes: Mapping[str, int], grant: Grant) -> Picture:
        may_reword = self._now - self._observed.worded_at >= WORDS_EVERY
        queued = grant.target == 0 and not self._view.suspend
        end, code, words, cause = verdict({role.name: role for role in roles})
        running = {role.name: role.plan.counts.active + role.plan.counts.succeeded for role in roles}
        scale = entered(with_pause(self._scale, self._observed.pause), grant, self._now, may_reword=may_reword)
        facts = Facts(
            end=end,  # type: ignore[arg-type]  # one of the three
            held=not any(sizes.values()),
            at_minimum=not queued
            and all(
                running[role.name] >= min(sizes[role.name], replicas_at(role, self._view.min))
                for role in self._view.roles
            ),
            resized=grant.target != (self._scale.target or 0),
            settled=not any(role.plan.leaving or role.plan.coming for role in roles)
            and all(running[name] >= size for name, size in sizes.items()),
        )
        return Picture(
            view=self._view,
            plan=self._plan,
            scale=scale,
            roles=roles,
            facts=facts,
            found=Circumstances(
                queued=queued,
                suspended=self._view.suspend,
                code=scale.code,
                reason=scale.reason,
                refusals=self._observed.refusals,
                refused_edits=self._look.refused_edits,
                warnings=self._look.warnings,
            ),
            awaits="" if self._plan.source else NO_PLAN,
            end_words=words,
            end_code=code,
            root_cause=cause,
            may_reword=may_reword,
        )

    # What to do.

    def _pod_intents(self, roles: Sequence[RoleLook], *, create: bool) -> list[Intent]:
        intents: list[Intent] = []
        for role in roles:
            intents += [Delete(Pod.KIND, pod.name, pod.uid) for pod in role.plan.delete]
            deleted = {pod.name for pod in role.plan.delete}
            orphans = [pod for pod in role.sight.orphans if pod.metadata.name not in deleted]
            intents += [change(Pod.KIND, pod, [adoption(pod, self._owner)]) for pod in orphans]
            adopted = {pod.metadata.name for pod in orphans}
            intents += [one for one in role.resizes if one.name not in adopted | deleted]
            if create and role.role is not None:
                made = [(new.name, self._children.pod(role.role, new, self._owner)) for new in role.plan.create]
                intents += [Create(Pod.KIND, name, body) for name, body in made]
        return intents

    def _plans(self, picture: Picture) -> list[Change]:
        return tell_plans(self._job, self._look.companions, picture, self._now)

    def _outcome(self, picture: Picture, intents: Sequence[Intent], blocked: Refusal | None = None) -> Outcome:
        status = draw(self._old, picture, self._now)
        held = waiting(self._observed, self._now)
        kept_back = {(refusal.kind, refusal.name) for refusal in held}
        ready = [one for one in intents if not isinstance(one, Create) or (one.kind, one.name) not in kept_back]
        destroys = any(isinstance(intent, Delete) for intent in ready)
        plans = self._plans(picture)
        if any(role.news for role in picture.roles):  # what is refused must be known before its pod goes
            ready, plans = [*plans, *ready], []
        wakes = [when for role in picture.roles for when in (role.plan.wake, role.wake)]
        wakes += [refusal.retry_at for refusal in held]
        wakes.append(self._now + LEFTOVER_PAUSE if blocked is not None else None)
        return Outcome(
            status,
            urgent=decided(status, destroys) != decided(self._old, destroys),
            intents=tuple(ready),
            soft=tuple(plans),
            events=tuple(told(self._old, status, picture.roles)),
            deeds=tuple(done(picture.roles)) if ready else (),
            wake=soonest(*wakes),
        )

    # The end.

    def _after_the_end(self) -> Outcome:
        """Pods that still run are stopped and addresses let go; pods that ended stay for their logs."""
        sizes = dict.fromkeys(ROLES, 0)
        roles = self._roles(sizes, Grant(0))
        counts = {role.name: role.plan.counts for role in roles}
        status = replace(
            self._old,
            replica_statuses={
                name: ReplicaCounts(
                    desired=0,
                    active=counts[name].active,
                    pending=counts[name].pending,
                    succeeded=counts[name].succeeded,
                    failed=counts[name].failed,
                )
                for name in self._old.replica_statuses or {}
                if name in counts
            },
        )
        intents, _ = Services(self._look, self._children, self._owner).reconcile(roles)
        intents += [Delete(Pod.KIND, pod.name, pod.uid) for role in roles for pod in role.plan.delete]
        picture = self._picture(roles, sizes, Grant(0))
        over = replace(picture, facts=replace(picture.facts, end=self._old.phase.lower()))
        gone = expiry(self._old.completion_time, self._job.spec.ttl_seconds_after_finished)
        if gone is not None and gone <= self._now:
            intents = [Delete(self._view.kind, self._view.name, self._view.uid)]
        return Outcome(status, intents=tuple(intents), soft=tuple(self._plans(over)), wake=gone)


def about_its_size(status: EasydlStatus, grant: Grant) -> bool:
    """Trainers are granted before there is a plan, workers by a plan: one says nothing about the other."""
    return (WORKER in grant.roles) == (counted(status.plan) == WORKER)


def easydl_look(look: Look[ElasticJob]) -> Outcome:
    return EasydlLook(look).outcome()
