"""Builds a snapshot from Kubernetes objects, the same way for the operator's caches and for a file.

`SnapshotBuilder` keeps what it has read of objects that have not changed since. `build_snapshot` does it once.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from edl.api.job_view import Installation
from edl.api.kubernetes.core import Node, Pod, ResourceQuota
from edl.jobs.core.objects import EdlObject
from edl.jobs.registry import job_kind_of
from edl.scheduler.placement.pod_affinity import PodAffinity, Pods, pods_of
from edl.scheduler.placement.quota import QuotaLedger
from edl.scheduler.placement.resources import CPU, GPU_NAMES, MEMORY, Amounts, Axes
from edl.scheduler.snapshot.job_facts import child_refusal, child_size, job_facts, left_alone
from edl.scheduler.snapshot.job_terms import JobTerms, NamespaceTerms, Refusal, RoleIndex, RoleTerms, read_job_terms
from edl.scheduler.snapshot.models import ModelCache
from edl.scheduler.snapshot.node_facts import NodeCache
from edl.scheduler.snapshot.objects import Invalid, Objects
from edl.scheduler.snapshot.ownership import JobIdentity, Owners
from edl.scheduler.snapshot.pod_facts import PodFacts, read_pod
from edl.scheduler.snapshot.shapes import Catalog
from edl.scheduler.snapshot.types import JobFacts, RoleFacts, Rule, Snapshot
from edl.scheduler.snapshot.usage import ClusterUsage, JobUsage

_Terms = JobTerms | Invalid
_Roles = tuple[RoleFacts, ...]
_NO_ROLES = RoleIndex({}, 0, ())


def build_snapshot(objects: Objects, *, installation: Installation | None = None) -> Snapshot:
    return SnapshotBuilder(installation=installation).build(objects)


class SnapshotBuilder:
    def __init__(self, *, installation: Installation | None = None, gpu_names: Sequence[str] = GPU_NAMES) -> None:
        self._installation = installation
        self._gpu_names = frozenset((*gpu_names, *((installation.gpu,) if installation is not None else ())))
        self._namespace_inputs: tuple[object, ...] = ()
        self._namespace_terms = NamespaceTerms((), (), (), ())
        self._pods: dict[str, PodFacts] = {}
        self._terms: dict[tuple[str, str, str, str], tuple[EdlObject, object, _Terms]] = {}
        self._catalog = Catalog(Axes((), self._gpu_names))
        self._nodes = NodeCache()
        self._quota_lines: tuple[object, ...] = ()
        self._roles: dict[int, tuple[JobTerms, _Roles]] = {}
        self._names: tuple[str, ...] = ()
        self._models = ModelCache()
        self._facts: dict[int, tuple[JobTerms, _Roles, JobUsage, tuple[int | None, Refusal], JobFacts]] = {}

    def build(self, objects: Objects) -> Snapshot:
        self._refresh_namespace_terms(objects)
        self._models.take(objects.measured)
        jobs = self._all_terms(objects)
        pods = self._all_pods(objects.pods)
        owners = Owners([_identity(job) for job in jobs], objects.children, complete=objects.complete)
        nodes = sorted(objects.nodes, key=lambda node: node.metadata.name)
        usage = ClusterUsage(pods, owners, [_role_index(job) for job in jobs], [node.metadata.name for node in nodes])
        self._keep_catalog(self._axes(jobs, usage, nodes))
        axes = self._catalog.axes
        ledger = QuotaLedger(_by_namespace(objects.quotas), pods, self._namespace_inputs)
        affinity = self._pod_affinity(jobs, usage, nodes)
        roles = self._all_roles(jobs, ledger, affinity)
        foreign = usage.foreign(self._catalog, affinity, self._namespace_terms)
        node_facts = self._nodes.all(nodes, usage.used(axes), self._catalog)
        allowed, excluded = self._nodes.match_classes(node_facts)
        return Snapshot(
            axes=axes,
            nodes=node_facts,
            jobs=self._all_facts(jobs, roles, usage, owners),
            foreign=foreign,
            allowed=allowed,
            excluded=excluded,
            terminating=usage.terminating(axes, ledger),
            quota_lines=ledger.quota_lines,
            counters=affinity.counters() if affinity is not None else (),
            committed=usage.committed([not node.refusal for node in node_facts]),
            bound_foreign=frozenset(usage.bound_foreign),
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
            self._terms.clear()

    def _all_terms(self, objects: Objects) -> list[_Terms]:
        """Sorted by namespace, name and kind."""
        known, self._terms = self._terms, {}
        for job in objects.jobs:
            resource = job_kind_of(job).followed(job, objects.resources)
            key = (job.metadata.namespace, job.metadata.name, job.kind, job.api_version)
            entry = known.get(key)
            if entry is None or entry[0] is not job or entry[1] is not resource:
                entry = job, resource, read_job_terms(job, resource, self._namespace_terms, self._installation)
            self._terms[key] = entry
        found: dict[tuple[str, str, str, str], _Terms] = {
            (one.namespace, one.name, one.kind, one.api_version): one for one in objects.invalid
        }
        found.update({key: entry[2] for key, entry in self._terms.items()})
        return [found[key] for key in sorted(found)]

    def _all_pods(self, pods: Iterable[Pod]) -> list[PodFacts]:
        known = self._pods
        fresh: dict[str, PodFacts] = {}
        for pod in pods:
            metadata = pod.metadata
            key = metadata.uid or f"{metadata.namespace}/{metadata.name}"
            facts = known.get(key)
            if facts is None or facts.pod is not pod:
                facts = read_pod(pod)
            fresh[key] = facts
        self._pods = fresh
        return list(fresh.values())

    def _axes(self, jobs: Iterable[_Terms], usage: ClusterUsage, nodes: Iterable[Node]) -> Axes:
        """Resources that a pod to be placed requests, and GPUs wherever there are any."""
        asked = {job.asks for job in jobs if isinstance(job, JobTerms)}
        offered = {frozenset(node.status.allocatable or node.status.capacity) for node in nodes}
        names = frozenset[str]().union(*asked, *(pod.requests for pod in usage.pending))
        return Axes(names.union(*(self._gpu_names & kind for kind in offered)), self._gpu_names)

    def _keep_catalog(self, axes: Axes) -> None:
        if axes.names != self._catalog.axes.names:
            self._catalog = Catalog(axes)
            self._roles.clear()
            for facts in self._pods.values():
                facts.vector = ()

    def _pod_affinity(self, jobs: Sequence[_Terms], usage: ClusterUsage, nodes: Sequence[Node]) -> PodAffinity | None:
        """Only if a pod to be placed has rules about other pods, or anti-affinity of a pod present applies to it."""
        namespace_terms = self._namespace_terms
        roles = [(role, job.view.namespace) for job in jobs if isinstance(job, JobTerms) for role in job.roles]
        repelling = {
            term
            for pod in usage.on_nodes
            if pod.has_anti_affinity
            for term in _pods_like(pod, namespace_terms).anti_affinity
        }
        if not (
            any(role.has_pod_rules for role, _ in roles)
            or any(pod.has_pod_rules for pod in usage.pending)
            or any(term.matches(namespace, role.labels) for term in repelling for role, namespace in roles)
            or any(term.matches(*_who(pod)) for term in repelling for pod in usage.pending)
        ):
            return None
        kinds = [_pods_of(role, namespace, namespace_terms) for role, namespace in roles]
        kinds += [_pods_like(pod, namespace_terms) for pod in usage.pending]
        present = zip((_pods_like(pod, namespace_terms) for pod in usage.on_nodes), usage.nodes, strict=True)
        return PodAffinity(kinds, present, [node.metadata.labels for node in nodes])

    def _all_roles(self, jobs: Sequence[_Terms], ledger: QuotaLedger, affinity: PodAffinity | None) -> list[_Roles]:
        """Kept as long as the quota lines are the same, and always made anew where pod affinity counts."""
        quota_lines = tuple((one.namespace, one.quota, one.resource) for one in ledger.quota_lines)
        if affinity is not None or quota_lines != self._quota_lines:
            self._roles.clear()
        self._quota_lines = quota_lines
        known, self._roles = self._roles, {}
        found: list[_Roles] = []
        for job in jobs:
            if isinstance(job, Invalid):
                found.append(())
                continue
            entry = known.get(id(job))
            if entry is None:
                namespace = job.view.namespace
                entry = job, tuple([self._role(role, namespace, ledger, affinity) for role in job.roles])
            self._roles[id(job)] = entry
            found.append(entry[1])
        return found

    def _role(self, role: RoleTerms, namespace: str, ledger: QuotaLedger, affinity: PodAffinity | None) -> RoleFacts:
        rules: tuple[Rule, ...] = ()
        counted: tuple[int, ...] = ()
        if affinity is not None:
            pods = _pods_of(role, namespace, self._namespace_terms)
            rules, counted = affinity.rules(pods), affinity.counted(pods)
        limits = role.limits.get(CPU, 0), role.limits.get(MEMORY, 0)
        shape = self._catalog.shape(role.requests, limits, role.node_match, role.priority, rules, counted)
        charges = ledger.charges(role.spec, namespace, role.requests, role.limits)
        return RoleFacts(role.name, shape, charges, role.problem)

    def _all_facts(
        self, jobs: Sequence[_Terms], roles: Sequence[_Roles], usage: ClusterUsage, owners: Owners
    ) -> tuple[JobFacts, ...]:
        """Kept for jobs of which nothing has changed; positions of nodes mean the same as long as nodes do."""
        names = tuple(usage.node_positions)
        if names != self._names:
            self._names = names
            self._facts.clear()
        known, self._facts = self._facts, {}
        found = []
        for index, job in enumerate(jobs):
            children = owners.children.get(index, ())
            if isinstance(job, Invalid):
                found.append(left_alone(job, children, usage.live_of_invalid.get(index, 0)))
                continue
            job_usage = usage.by_job.get(index) or JobUsage(len(job.roles))
            size = child_size(job.identity, children) if children else None
            refusal = child_refusal(children)
            entry = known.get(id(job))
            if (
                entry is None
                or entry[1] is not roles[index]
                or entry[3] != (size, refusal)
                or not job_usage.same(entry[2])
            ):
                live = self._with_live_requests(roles[index], job_usage)
                facts = job_facts(job, live, job_usage, size, refusal, usage)
                entry = job, roles[index], job_usage, (size, refusal), facts
            model = self._models.model(job.identity.uid, job.view.max)
            if model is not entry[4].model:
                entry = *entry[:4], structs.replace(entry[4], model=model)
            self._facts[id(job)] = entry
            found.append(entry[4])
        return tuple(found)

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


def _by_namespace(quotas: Iterable[ResourceQuota]) -> dict[str, list[ResourceQuota]]:
    found: dict[str, list[ResourceQuota]] = {}
    for quota in sorted(quotas, key=lambda quota: quota.metadata.name):
        found.setdefault(quota.metadata.namespace, []).append(quota)
    return found


def _identity(job: _Terms) -> JobIdentity:
    return (
        job.identity
        if isinstance(job, JobTerms)
        else JobIdentity(job.kind, job.api_version, job.namespace, job.name, job.uid)
    )


def _role_index(job: _Terms) -> RoleIndex:
    return job.role_index if isinstance(job, JobTerms) else _NO_ROLES


def _pods_of(role: RoleTerms, namespace: str, namespace_terms: NamespaceTerms) -> Pods:
    return pods_of(role.spec, namespace, role.labels, namespace_terms.labels)


def _who(pod: PodFacts) -> tuple[str, Mapping[str, str]]:
    return pod.pod.metadata.namespace, pod.pod.metadata.labels


def _pods_like(pod: PodFacts, namespace_terms: NamespaceTerms) -> Pods:
    return pods_of(pod.pod.spec, *_who(pod), namespace_terms.labels)
