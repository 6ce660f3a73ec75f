"""Builds a snapshot from Kubernetes objects, the same way for the operator's caches and for a file.

`SnapshotBuilder` keeps what it has read and counted of objects that have not changed since, so that a build costs what
has changed. The snapshot is the one that a new builder would make, but for the numbers of shapes and classes of nodes.
`build_snapshot` does it once.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from edl.api.job_view import Installation
from edl.api.kubernetes.core import Pod, ResourceQuota
from edl.scheduler.placement.pod_affinity import PodAffinity, Pods, pods_of
from edl.scheduler.placement.quota import QuotaLedger
from edl.scheduler.placement.resources import CPU, GPU_NAMES, MEMORY, Amounts, Axes
from edl.scheduler.snapshot.foreign_facts import foreign_pods
from edl.scheduler.snapshot.job_facts import child_refusal, child_size, job_facts, left_alone
from edl.scheduler.snapshot.job_records import JobRecord, JobRecords, same_objects
from edl.scheduler.snapshot.job_terms import JobTerms, NamespaceTerms, RoleTerms
from edl.scheduler.snapshot.job_usage import JobUsage, live_pods
from edl.scheduler.snapshot.models import ModelCache
from edl.scheduler.snapshot.node_facts import NodeCache
from edl.scheduler.snapshot.objects import Invalid, Objects
from edl.scheduler.snapshot.ownership import Child, JobKey, JobNames, Owners
from edl.scheduler.snapshot.pod_facts import PodFacts, read_pod
from edl.scheduler.snapshot.shapes import Catalog
from edl.scheduler.snapshot.types import NOWHERE, RoleFacts, Rule, Snapshot, TerminatingPod
from edl.scheduler.snapshot.usage import ClusterUsage, NodeUsage
from edl.scheduler.snapshot.versions import Versions

_Roles = tuple[RoleFacts, ...]


def build_snapshot(objects: Objects, *, installation: Installation | None = None) -> Snapshot:
    return SnapshotBuilder(installation=installation).build(objects)


class SnapshotBuilder:
    def __init__(self, *, installation: Installation | None = None, gpu_names: Sequence[str] = GPU_NAMES) -> None:
        self._installation = installation
        self._gpu_names = frozenset((*gpu_names, *((installation.gpu,) if installation is not None else ())))
        self._kept = _Kept(self._installation, self._gpu_names)

    def build(self, objects: Objects) -> Snapshot:
        kept, self._kept = self._kept, _Kept(self._installation, self._gpu_names)
        snapshot = kept.build(objects)
        self._kept = kept  # only after a build that was finished: half of a change is worse than none
        return snapshot


class _Kept:
    """What was read and counted, and how to bring it up to date."""

    def __init__(self, installation: Installation | None, gpu_names: frozenset[str]) -> None:
        self._gpu_names = gpu_names
        self._namespace_inputs: tuple[object, ...] = ()
        self._namespace_terms = NamespaceTerms((), (), (), ())
        self._jobs = JobRecords(installation)
        self._pod_versions: Versions[Pod] = Versions(_pod_key)
        self._pods: dict[int, PodFacts] = {}
        self._owners = Owners(JobNames())
        self._children: Sequence[Child] = ()
        self._usage = ClusterUsage()
        self._nodes = NodeCache()
        self._catalog = Catalog(Axes((), gpu_names))
        self._node_usage = NodeUsage(self._usage, (), self._catalog.axes)
        self._ledger = QuotaLedger({}, self._namespace_inputs)
        self._affinity: PodAffinity | None = None
        self._models = ModelCache()
        self._have_models = False

    def build(self, objects: Objects) -> Snapshot:
        self._refresh_namespace_terms(objects)
        self._jobs.take(objects, self._namespace_terms)
        self._nodes.take(objects.nodes)
        stale = {record.key for record in self._jobs.changed}
        stale |= self._follow_owners(objects)
        self._count_pods(objects.pods)
        whole = self._keep_catalog()
        recounted, moved = self._count_nodes()
        quotas = _by_namespace(objects.quotas)
        whole = self._keep_ledger(quotas) or whole
        whole = self._keep_affinity() or whole
        stale |= self._usage.changed_jobs
        foreign = foreign_pods(self._usage.pending.values(), self._catalog, self._affinity, self._namespace_terms)
        self._renew_facts(stale, roles=whole, every=whole or moved)
        self._usage.changed_jobs.clear()
        self._renew_models(objects)
        nodes = self._nodes.all(self._node_usage, recounted, self._catalog)
        allowed, excluded = self._nodes.match_classes()
        return Snapshot(
            axes=self._catalog.axes,
            nodes=nodes,
            jobs=tuple([record.facts for record in self._jobs.order]),
            foreign=foreign,
            allowed=allowed,
            excluded=excluded,
            terminating=self._terminating(),
            quota_lines=self._ledger.quota_lines(quotas),
            counters=self._affinity.counters() if self._affinity is not None else (),
            committed=self._node_usage.committed(self._nodes.usable),
            bound_foreign=self._usage.bound_foreign(),
            problems=objects.problems,
        )

    def _refresh_namespace_terms(self, objects: Objects) -> None:
        """Terms of jobs hold as long as those of their namespaces do. A quota's status is no part of these."""
        quotas = [(quota.metadata.namespace, quota.metadata.name, quota.spec) for quota in objects.quotas]
        quotas.sort(key=lambda quota: quota[:2])
        inputs = (objects.namespaces, objects.priority_classes, objects.limit_ranges, quotas)
        if inputs != self._namespace_inputs:
            self._namespace_inputs = inputs
            self._namespace_terms = NamespaceTerms(
                objects.namespaces, objects.priority_classes, objects.limit_ranges, objects.quotas
            )

    def _follow_owners(self, objects: Objects) -> set[JobKey]:
        """Who owns what, and pods given to whom they belong now. Returns the jobs whose children may have changed."""
        names, before = self._jobs.names, self._owners
        same_children = same_objects(objects.children, self._children)
        if names is before.names and same_children and objects.complete == before.complete:
            return set()
        self._owners = Owners(names, objects.children, complete=objects.complete)
        self._children = objects.children
        self._usage.take(self._owners)
        if names is not before.names or objects.complete != before.complete:
            return {*before.children, *self._owners.children}
        return _with_other_children(before, self._owners)

    def _count_pods(self, pods: Sequence[Pod]) -> None:
        gone, new = self._pod_versions.update(pods)
        for pod in gone:
            facts = self._pods.pop(id(pod))
            self._usage.remove(facts)
            self._ledger.count(facts, -1)
        for pod in new:
            facts = self._pods[id(pod)] = read_pod(pod)
            self._usage.add(facts)
            self._ledger.count(facts)

    def _keep_catalog(self) -> bool:
        """Resources that a pod to be placed requests, and GPUs wherever there are any; whether they are others now."""
        names = self._jobs.asks.union(*(pod.requests for pod in self._usage.pending.values()))
        axes = Axes(names | (self._gpu_names & self._nodes.offered()), self._gpu_names)
        if axes.names == self._catalog.axes.names:
            return False
        self._catalog = Catalog(axes)
        for facts in self._pods.values():
            facts.vector = ()
        return True

    def _count_nodes(self) -> tuple[Iterable[int], bool]:
        """Positions of nodes whose pods were counted anew, and whether positions are others now."""
        usage, names, axes = self._node_usage, self._nodes.names, self._catalog.axes
        moved = usage.names is not names
        if moved or usage.axes is not axes:
            self._node_usage = NodeUsage(self._usage, names, axes)
            recounted: Iterable[int] = range(len(names))
        else:
            recounted = usage.recount(self._usage.changed_nodes)
        self._usage.changed_nodes.clear()
        return recounted, moved

    def _keep_ledger(self, quotas: Mapping[str, Sequence[ResourceQuota]]) -> bool:
        """Whether the lines of the quotas are others now."""
        if self._ledger.holds_for(quotas, self._namespace_inputs):
            return False
        self._ledger = QuotaLedger(quotas, self._namespace_inputs)
        for pod in self._pods.values():
            self._ledger.count(pod)
        return True

    def _keep_affinity(self) -> bool:
        """Whether roles have rules about other pods, or had; these are made anew every time."""
        before, self._affinity = self._affinity, self._pod_affinity()
        return before is not None or self._affinity is not None

    def _pod_affinity(self) -> PodAffinity | None:
        """Only if a pod to be placed has rules about other pods, or anti-affinity of a pod present applies to it."""
        namespace_terms, pending = self._namespace_terms, self._usage.pending.values()
        ruled = self._jobs.have_pod_rules or any(pod.has_pod_rules for pod in pending)
        if not ruled and not self._usage.repelling:
            return None
        jobs = [record.terms for record in self._jobs.order if isinstance(record.terms, JobTerms)]
        roles = [(role, job.view.namespace) for job in jobs for role in job.roles]
        here = [pod for pod in self._usage.repelling.values() if pod.node in self._node_usage.positions]
        repelling = {term for pod in here for term in _pods_like(pod, namespace_terms).anti_affinity}
        if not (
            ruled
            or any(term.matches(namespace, role.labels) for term in repelling for role, namespace in roles)
            or any(term.matches(*_who(pod)) for term in repelling for pod in pending)
        ):
            return None
        kinds = [_pods_of(role, namespace, namespace_terms) for role, namespace in roles]
        kinds += [_pods_like(pod, namespace_terms) for pod in pending]
        present = ((_pods_like(pod, namespace_terms), position) for pod, position in self._node_usage.pods())
        return PodAffinity(kinds, present, [node.metadata.labels for node in self._nodes.nodes])

    def _renew_facts(self, stale: set[JobKey], *, roles: bool, every: bool) -> None:
        """Of jobs of which something has changed; `roles`: these too are to be made anew."""
        known = (self._jobs.get(key) for key in stale)
        for record in self._jobs.order if every else filter(None, known):
            if roles:
                record.roles = None
            if every:
                record.made_of = None
            self._renew(record)

    def _renew(self, record: JobRecord) -> None:
        terms, children = record.terms, self._owners.children.get(record.key, ())
        if isinstance(terms, Invalid):
            record.facts = left_alone(terms, children, live_pods(self._usage.of_job(record.key)))
            return
        if record.roles is None:
            record.roles = tuple([self._role(role, terms.view.namespace) for role in terms.roles])
        positions = self._node_usage.positions
        usage = JobUsage(terms.role_index, self._usage.of_job(record.key), positions)
        size = child_size(terms.identity, children) if children else None
        refusal = child_refusal(children)
        known = record.made_of
        if known is None or known[0] is not record.roles or known[2:] != (size, refusal) or not usage.same(known[1]):
            live = self._with_live_requests(record.roles, usage)
            record.facts = job_facts(terms, live, usage, size, refusal, positions)
            record.made_of = record.roles, usage, size, refusal

    def _role(self, role: RoleTerms, namespace: str) -> RoleFacts:
        rules: tuple[Rule, ...] = ()
        counted: tuple[int, ...] = ()
        if self._affinity is not None:
            pods = _pods_of(role, namespace, self._namespace_terms)
            rules, counted = self._affinity.rules(pods), self._affinity.counted(pods)
        limits = role.limits.get(CPU, 0), role.limits.get(MEMORY, 0)
        shape = self._catalog.shape(role.requests, limits, role.node_match, role.priority, rules, counted)
        charges = self._ledger.charges(role.spec, namespace, role.requests, role.limits)
        return RoleFacts(role.name, shape, charges, role.problem)

    def _with_live_requests(self, roles: _Roles, job_usage: JobUsage) -> _Roles:
        if not job_usage.smallest:
            return roles
        return tuple(self._with_given(role, job_usage.smallest.get(number)) for number, role in enumerate(roles))

    def _with_given(self, role: RoleFacts, smallest: Amounts | None) -> RoleFacts:
        """Pods made from an earlier template give back what they have, not what their successors will request."""
        if smallest is None:
            return role
        shape = role.shape
        node_match = next(
            node_match for node_match, index in self._catalog.node_matches.items() if index == shape.node_match
        )
        given = self._catalog.shape(smallest, shape.limits, node_match, shape.priority, shape.rules, shape.counted)
        return structs.replace(role, given=given)

    def _renew_models(self, objects: Objects) -> None:
        """Of all jobs, wherever one has measured something of itself."""
        self._models.take(objects.measured)
        if not objects.measured and not self._have_models:
            return
        self._have_models = bool(objects.measured)
        for record in self._jobs.order:
            if isinstance(record.terms, JobTerms):
                model = self._models.model(record.terms.identity.uid, record.terms.view.max)
                if model is not record.facts.model:
                    record.facts = structs.replace(record.facts, model=model)

    def _terminating(self) -> tuple[TerminatingPod, ...]:
        axes, positions = self._catalog.axes, self._node_usage.positions
        return tuple(
            TerminatingPod(
                node=positions.get(pod.node, NOWHERE) if pod.node else NOWHERE,
                requests=axes.vector(pod.requests),
                limits=(pod.cpu_limit, pod.memory_limit),
                until=pod.leaving_until or 0.0,
                charges=self._ledger.of_pod(pod),
            )
            for pod in self._usage.terminating.values()
        )


def _with_other_children(before: Owners, after: Owners) -> set[JobKey]:
    jobs = before.children.keys() | after.children.keys()
    return {job for job in jobs if not same_objects(before.children.get(job, ()), after.children.get(job, ()))}


def _pod_key(pod: Pod) -> str:
    metadata = pod.metadata
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"


def _by_namespace(quotas: Iterable[ResourceQuota]) -> dict[str, list[ResourceQuota]]:
    found: dict[str, list[ResourceQuota]] = {}
    for quota in sorted(quotas, key=lambda quota: quota.metadata.name):
        found.setdefault(quota.metadata.namespace, []).append(quota)
    return found


def _pods_of(role: RoleTerms, namespace: str, namespace_terms: NamespaceTerms) -> Pods:
    return pods_of(role.spec, namespace, role.labels, namespace_terms.labels)


def _who(pod: PodFacts) -> tuple[str, Mapping[str, str]]:
    return pod.pod.metadata.namespace, pod.pod.metadata.labels


def _pods_like(pod: PodFacts, namespace_terms: NamespaceTerms) -> Pods:
    return pods_of(pod.pod.spec, *_who(pod), namespace_terms.labels)
