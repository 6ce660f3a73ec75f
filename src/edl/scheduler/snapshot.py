"""From Kubernetes objects to a snapshot: the same way for the operator's caches and for a file.

`SnapshotBuilder` keeps what it has read of objects that have not changed since. `build_snapshot` does it once.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from edl.api import views
from edl.api.core import Node, Pod, ResourceQuota
from edl.api.easydl_job import ElasticJob as EasydlJob
from edl.api.roles import Installation
from edl.scheduler.catalog import Catalog
from edl.scheduler.census import Census, Tally
from edl.scheduler.facts import JobFacts, RoleFacts, Rule, Snapshot
from edl.scheduler.jobfacts import child_size, job_facts, left_alone
from edl.scheduler.ledger import Ledger
from edl.scheduler.nearness import Nearness, Pods, pods_of
from edl.scheduler.nodefacts import NodeCache
from edl.scheduler.objects import Invalid, Objects
from edl.scheduler.owners import Known, Owners
from edl.scheduler.podfacts import PodFacts, read_pod
from edl.scheduler.resources import CPU, GPU_NAMES, MEMORY, Amounts, Axes
from edl.scheduler.terms import Country, Crew, RoleTerms, Terms, terms_of

_Terms = Terms | Invalid
_Roles = tuple[RoleFacts, ...]
_NO_CREW = Crew({}, 0, ())


def build_snapshot(objects: Objects, *, installation: Installation | None = None) -> Snapshot:
    return SnapshotBuilder(installation=installation).build(objects)


class SnapshotBuilder:
    def __init__(self, *, installation: Installation | None = None, gpu_names: Sequence[str] = GPU_NAMES) -> None:
        self._installation = installation
        self._gpu_names = frozenset((*gpu_names, *((installation.gpu,) if installation is not None else ())))
        self._laws: tuple[object, ...] = ()
        self._country = Country((), (), (), ())
        self._pods: dict[str, PodFacts] = {}
        self._terms: dict[tuple[str, str, str, str], tuple[views.Job, object, _Terms]] = {}
        self._catalog = Catalog(Axes((), self._gpu_names))
        self._nodes = NodeCache()
        self._accounts: tuple[object, ...] = ()
        self._roles: dict[int, tuple[Terms, _Roles]] = {}
        self._names: tuple[str, ...] = ()
        self._facts: dict[int, tuple[Terms, _Roles, Tally, int | None, JobFacts]] = {}

    def build(self, objects: Objects) -> Snapshot:
        self._keep_laws(objects)
        jobs = self._all_terms(objects)
        pods = self._all_pods(objects.pods)
        owners = Owners([_known(job) for job in jobs], objects.children)
        nodes = sorted(objects.nodes, key=lambda node: node.metadata.name)
        census = Census(pods, owners, [_crew(job) for job in jobs], [node.metadata.name for node in nodes])
        self._keep_catalog(self._axes(jobs, census, nodes))
        axes = self._catalog.axes
        ledger = Ledger(_by_namespace(objects.quotas), pods, self._laws)
        nearness = self._nearness(jobs, census, nodes)
        roles = self._all_roles(jobs, ledger, nearness)
        foreign = census.foreign(self._catalog, nearness, self._country)
        node_facts = self._nodes.all(nodes, census.used(axes), self._catalog)
        allowed, excluded = self._nodes.judge(node_facts)
        return Snapshot(
            axes=axes,
            nodes=node_facts,
            jobs=self._all_facts(jobs, roles, census, owners),
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
        quotas.sort(key=lambda quota: quota[:2])
        laws = (objects.namespaces, objects.priority_classes, objects.limit_ranges, quotas)
        if laws != self._laws:
            self._laws = laws
            self._country = Country(objects.namespaces, objects.priority_classes, objects.limit_ranges, objects.quotas)
            self._terms.clear()

    def _all_terms(self, objects: Objects) -> list[_Terms]:
        """Sorted by namespace, name and kind."""
        known, self._terms = self._terms, {}
        for job in objects.jobs:
            resource = views.resource_of(job, objects.resources) if isinstance(job, EasydlJob) else None
            key = (job.metadata.namespace, job.metadata.name, job.kind, job.api_version)
            entry = known.get(key)
            if entry is None or entry[0] is not job or entry[1] is not resource:
                entry = job, resource, terms_of(job, resource, self._country, self._installation)
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

    def _axes(self, jobs: Iterable[_Terms], census: Census, nodes: Iterable[Node]) -> Axes:
        """Resources that someone to be placed asks for, and GPUs wherever there are any."""
        asked = {job.asks for job in jobs if isinstance(job, Terms)}
        offered = {frozenset(node.status.allocatable or node.status.capacity) for node in nodes}
        names = frozenset[str]().union(*asked, *(pod.requests for pod in census.pending))
        return Axes(names.union(*(self._gpu_names & kind for kind in offered)), self._gpu_names)

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
        repelling = {term for pod in census.here if pod.repels for term in _pods_like(pod, country).apart}
        if not (
            any(role.demands for role, _ in roles)
            or any(pod.demands for pod in census.pending)
            or any(term.matches(namespace, role.labels) for term in repelling for role, namespace in roles)
            or any(term.matches(*_who(pod)) for term in repelling for pod in census.pending)
        ):
            return None
        kinds = [_pods_of(role, namespace, country) for role, namespace in roles]
        kinds += [_pods_like(pod, country) for pod in census.pending]
        present = zip((_pods_like(pod, country) for pod in census.here), census.nodes, strict=True)
        return Nearness(kinds, present, [node.metadata.labels for node in nodes])

    def _all_roles(self, jobs: Sequence[_Terms], ledger: Ledger, nearness: Nearness | None) -> list[_Roles]:
        """Kept as long as the accounts are the same, and always made anew where neighbours count."""
        accounts = tuple((one.namespace, one.quota, one.resource) for one in ledger.accounts)
        if nearness is not None or accounts != self._accounts:
            self._roles.clear()
        self._accounts = accounts
        known, self._roles = self._roles, {}
        found: list[_Roles] = []
        for job in jobs:
            if isinstance(job, Invalid):
                found.append(())
                continue
            entry = known.get(id(job))
            if entry is None:
                namespace = job.view.namespace
                entry = job, tuple([self._role(role, namespace, ledger, nearness) for role in job.roles])
            self._roles[id(job)] = entry
            found.append(entry[1])
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
        return RoleFacts(role.name, shape, taxes, role.problem)

    def _all_facts(
        self, jobs: Sequence[_Terms], roles: Sequence[_Roles], census: Census, owners: Owners
    ) -> tuple[JobFacts, ...]:
        """Jobs of which nothing has changed are what they were; places of nodes mean the same as long as nodes do."""
        names = tuple(census.places)
        if names != self._names:
            self._names = names
            self._facts.clear()
        known, self._facts = self._facts, {}
        found = []
        for place, job in enumerate(jobs):
            children = owners.children.get(place, ())
            if isinstance(job, Invalid):
                found.append(left_alone(job, children, census.heads.get(place, 0)))
                continue
            tally = census.tallies.get(place) or Tally(len(job.roles))
            size = child_size(job.known, children) if children else None
            entry = known.get(id(job))
            if entry is None or entry[1] is not roles[place] or entry[3] != size or not tally.same(entry[2]):
                facts = job_facts(job, self._as_they_are(roles[place], tally), tally, size, census)
                entry = job, roles[place], tally, size, facts
            self._facts[id(job)] = entry
            found.append(entry[4])
        return tuple(found)

    def _as_they_are(self, roles: _Roles, tally: Tally) -> _Roles:
        if not tally.smallest:
            return roles
        return tuple(self._as_given(role, tally.smallest.get(number)) for number, role in enumerate(roles))

    def _as_given(self, role: RoleFacts, smallest: Amounts | None) -> RoleFacts:
        """Pods made from an earlier template give back what they have, not what their successors will ask for."""
        if smallest is None:
            return role
        shape = role.shape
        where = next(where for where, place in self._catalog.wheres.items() if place == shape.where)
        given = self._catalog.shape(smallest, shape.limits, where, shape.priority, shape.rules, shape.counted)
        return structs.replace(role, given=given)


def _by_namespace(quotas: Iterable[ResourceQuota]) -> dict[str, list[ResourceQuota]]:
    found: dict[str, list[ResourceQuota]] = {}
    for quota in sorted(quotas, key=lambda quota: quota.metadata.name):
        found.setdefault(quota.metadata.namespace, []).append(quota)
    return found


def _known(job: _Terms) -> Known:
    return job.known if isinstance(job, Terms) else Known(job.kind, job.api_version, job.namespace, job.name, job.uid)


def _crew(job: _Terms) -> Crew:
    return job.crew if isinstance(job, Terms) else _NO_CREW


def _pods_of(role: RoleTerms, namespace: str, country: Country) -> Pods:
    return pods_of(role.spec, namespace, role.labels, country.labels)


def _who(pod: PodFacts) -> tuple[str, Mapping[str, str]]:
    return pod.pod.metadata.namespace, pod.pod.metadata.labels


def _pods_like(pod: PodFacts, country: Country) -> Pods:
    return pods_of(pod.pod.spec, *_who(pod), country.labels)
