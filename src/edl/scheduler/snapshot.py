"""From Kubernetes objects to a snapshot: the same way for the operator's caches and for a file.

`SnapshotBuilder` keeps what it has read of pods and jobs that have not changed since. `build_snapshot` does it once.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from edl.api import views
from edl.api.core import Node, Pod, ResourceQuota
from edl.api.easydl_job import ElasticJob as EasydlJob
from edl.api.roles import Installation
from edl.scheduler.catalog import Catalog, NodeClasses
from edl.scheduler.census import Census, Tally
from edl.scheduler.facts import JobFacts, NodeFacts, RoleFacts, Rule, Snapshot
from edl.scheduler.jobfacts import job_facts, left_alone
from edl.scheduler.ledger import Ledger
from edl.scheduler.nearness import Nearness, Pods, pods_of
from edl.scheduler.objects import Invalid, Objects
from edl.scheduler.owners import Known, Owners
from edl.scheduler.podfacts import PodFacts, read_pod
from edl.scheduler.resources import CPU, DEFAULT_PODS_PER_NODE, GPU_NAMES, MEMORY, PODS, Amounts, Axes, amounts
from edl.scheduler.terms import Country, Crew, RoleTerms, Terms, terms_of

_Terms = Terms | Invalid
_NO_CREW = Crew({}, 0, ())


def build_snapshot(objects: Objects, *, installation: Installation | None = None) -> Snapshot:
    return SnapshotBuilder(installation=installation).build(objects)


class SnapshotBuilder:
    def __init__(self, *, installation: Installation | None = None, gpu_names: Sequence[str] = GPU_NAMES) -> None:
        self._installation = installation
        self._gpu_names = {*gpu_names, *((installation.gpu,) if installation is not None else ())}
        self._pods: dict[str, PodFacts] = {}
        self._terms: dict[tuple[str, str, str, str], tuple[views.Job, object, _Terms]] = {}
        self._laws: tuple[object, ...] = ()
        self._country = Country((), (), (), ())
        self._catalog = Catalog(Axes((), self._gpu_names))
        self._roles: dict[int, tuple[Terms, tuple[RoleFacts, ...]]] = {}
        self._accounts: tuple[object, ...] = ()

    def build(self, objects: Objects) -> Snapshot:
        self._keep_laws(objects)
        jobs = self._all_terms(objects)
        pods = self._all_pods(objects.pods)
        owners = Owners([_known(job) for job in jobs], objects.children)
        nodes = sorted(objects.nodes, key=lambda node: node.metadata.name)
        census = Census(pods, owners, [_crew(job) for job in jobs], [node.metadata.name for node in nodes])
        self._keep_catalog(self._axes(jobs, census, nodes))
        axes = self._catalog.axes
        ledger = Ledger(self._quotas(objects), pods, self._laws)
        nearness = self._nearness(jobs, census, nodes)
        roles = self._all_roles(jobs, ledger, nearness)
        foreign = census.foreign(self._catalog, nearness, self._country)
        classes = NodeClasses(self._catalog.wheres)
        used = census.used(axes)
        node_facts = tuple([_node(node, used[place], classes, axes) for place, node in enumerate(nodes)])
        allowed, excluded = classes.judge()
        return Snapshot(
            axes=axes,
            nodes=node_facts,
            jobs=tuple([self._job(place, job, roles[place], census, owners) for place, job in enumerate(jobs)]),
            foreign=foreign,
            allowed=allowed,
            excluded=excluded,
            leaving=census.leaving(axes, ledger),
            accounts=ledger.accounts,
            counters=nearness.counters() if nearness is not None else (),
            committed=census.committed([not node.refusal for node in node_facts]),
            settled=frozenset(census.settled),
            problems=objects.problems,
        )

    def _keep_laws(self, objects: Objects) -> None:
        """What was read of jobs holds as long as the laws of their namespaces do. A quota's status is no law."""
        quotas = [(quota.metadata.namespace, quota.metadata.name, quota.spec) for quota in objects.quotas]
        laws = (objects.namespaces, objects.priority_classes, objects.limit_ranges, sorted(quotas, key=lambda q: q[:2]))
        if laws != self._laws:
            self._laws = laws
            self._country = Country(*laws[:3], objects.quotas)
            self._terms.clear()

    def _quotas(self, objects: Objects) -> dict[str, list[ResourceQuota]]:
        found: dict[str, list[ResourceQuota]] = {}
        for quota in sorted(objects.quotas, key=lambda quota: quota.metadata.name):
            found.setdefault(quota.metadata.namespace, []).append(quota)
        return found

    def _all_terms(self, objects: Objects) -> list[_Terms]:
        known = self._terms
        self._terms = {}
        for job in objects.jobs:
            resource = views.resource_of(job, objects.resources) if isinstance(job, EasydlJob) else None
            key = (job.metadata.namespace, job.metadata.name, job.kind, job.api_version)
            entry = known.get(key)
            if entry is None or entry[0] is not job or entry[1] is not resource:
                entry = job, resource, terms_of(job, resource, self._country, self._installation)
            self._terms[key] = entry
        found: list[tuple[tuple[str, str, str, str], _Terms]] = [(key, entry[2]) for key, entry in self._terms.items()]
        found += [((one.namespace, one.name, one.kind, one.api_version), one) for one in objects.invalid]
        return [terms for _, terms in sorted(found, key=lambda item: item[0])]

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

    def _axes(self, jobs: Iterable[_Terms], census: Census, nodes: Iterable[Node]) -> Axes:
        """Resources that someone to be placed asks for, and GPUs wherever there are any."""
        names: set[str] = set()
        for job in jobs:
            if isinstance(job, Terms):
                for role in job.roles:
                    names.update(role.requests)
        for pod in census.pending:
            names.update(pod.requests)
        for node in nodes:
            names.update(self._gpu_names.intersection(node.status.allocatable or node.status.capacity))
        return Axes(names, self._gpu_names)

    def _keep_catalog(self, axes: Axes) -> None:
        if axes.names != self._catalog.axes.names:
            self._catalog = Catalog(axes)
            self._roles.clear()
            for facts in self._pods.values():
                facts.vector = ()

    def _nearness(self, jobs: Sequence[_Terms], census: Census, nodes: Sequence[Node]) -> Nearness | None:
        """Only if somebody to be placed has wishes about neighbours, or somebody present wants them to be apart."""
        country = self._country
        roles = [(role, job.view.namespace) for job in jobs if isinstance(job, Terms) for role in job.roles]
        repelling = {term for pod, _ in census.here if pod.repels for term in _pods_like(pod, country).apart}
        if not (
            any(role.demands for role, _ in roles)
            or any(pod.demands for pod in census.pending)
            or any(term.matches(namespace, role.labels) for term in repelling for role, namespace in roles)
            or any(term.matches(*_who(pod)) for term in repelling for pod in census.pending)
        ):
            return None
        kinds = [_pods_of(role, namespace, country) for role, namespace in roles]
        kinds += [_pods_like(pod, country) for pod in census.pending]
        present = ((_pods_like(pod, country), node) for pod, node in census.here)
        return Nearness(kinds, present, [node.metadata.labels for node in nodes])

    def _all_roles(
        self, jobs: Sequence[_Terms], ledger: Ledger, nearness: Nearness | None
    ) -> list[tuple[RoleFacts, ...]]:
        accounts = tuple((one.namespace, one.quota, one.resource) for one in ledger.accounts)
        if nearness is not None or accounts != self._accounts:
            self._roles.clear()
        self._accounts = accounts
        known = self._roles
        found: list[tuple[RoleFacts, ...]] = []
        fresh: dict[int, tuple[Terms, tuple[RoleFacts, ...]]] = {}
        for job in jobs:
            if isinstance(job, Invalid):
                found.append(())
                continue
            entry = known.get(id(job))
            if entry is None:
                namespace = job.view.namespace
                entry = job, tuple([self._role(role, namespace, ledger, nearness) for role in job.roles])
            fresh[id(job)] = entry
            found.append(entry[1])
        self._roles = {} if nearness is not None else fresh
        return found

    def _role(self, role: RoleTerms, namespace: str, ledger: Ledger, nearness: Nearness | None) -> RoleFacts:
        rules: tuple[Rule, ...] = ()
        counted: tuple[int, ...] = ()
        if nearness is not None:
            pods = _pods_of(role, namespace, self._country)
            rules, counted = nearness.rules(pods), nearness.counted(pods)
        limits = role.limits.get(CPU, 0), role.limits.get(MEMORY, 0)
        shape = self._catalog.shape(role.requests, limits, role.where, role.priority, rules, counted)
        taxes = ledger.taxes(role.spec, namespace, role.requests, role.limits)
        return RoleFacts(role.name, shape, taxes, role.problem, shape)

    def _job(self, place: int, job: _Terms, roles: tuple[RoleFacts, ...], census: Census, owners: Owners) -> JobFacts:
        children = owners.children.get(place, ())
        if isinstance(job, Invalid):
            return left_alone(job, children, census.heads.get(place, 0))
        tally = census.tallies.get(place) or Tally(len(roles))
        if tally.smallest:
            roles = tuple(self._as_given(role, tally.smallest.get(number)) for number, role in enumerate(roles))
        return job_facts(job, roles, tally, children, census)

    def _as_given(self, role: RoleFacts, smallest: Amounts | None) -> RoleFacts:
        """Pods made from an earlier template give back what they have, not what their successors will ask for."""
        if smallest is None:
            return role
        shape = role.shape
        where = next(where for where, place in self._catalog.wheres.items() if place == shape.where)
        given = self._catalog.shape(smallest, shape.limits, where, shape.priority, shape.rules, shape.counted)
        return structs.replace(role, given=given)


def _node(node: Node, used: Sequence[int], classes: NodeClasses, axes: Axes) -> NodeFacts:
    have = amounts(node.status.allocatable or node.status.capacity)
    have.setdefault(PODS, DEFAULT_PODS_PER_NODE)
    capacity = axes.vector(have)
    refusal = "is cordoned" if node.spec.unschedulable else ""
    if node.status.conditions and not node.ready:
        refusal = "is not ready"
    return NodeFacts(
        name=node.metadata.name,
        capacity=capacity,
        used=tuple(used),
        kind=classes.of(node.metadata.name, node.metadata.labels, node.spec.taints),
        gpu=axes.gpu_count(capacity) > 0,
        refusal=refusal,
    )


def _known(job: _Terms) -> Known:
    return job.known if isinstance(job, Terms) else Known(job.kind, job.api_version, job.namespace, job.name, job.uid)


def _crew(job: _Terms) -> Crew:
    return job.crew if isinstance(job, Terms) else _NO_CREW


def _pods_of(role: RoleTerms, namespace: str, country: Country) -> Pods:
    return pods_of(role.spec, namespace, role.labels, country.labels)


def _who(pod: PodFacts) -> tuple[str, Mapping[str, str]]:
    return pod.pod.metadata.namespace, pod.pod.metadata.labels


def _pods_like(pod: PodFacts, country: Country) -> Pods:
    metadata = pod.pod.metadata
    return pods_of(pod.pod.spec, metadata.namespace, metadata.labels, country.labels)
