"""The jobs of a snapshot with what was made of each: terms, roles, counted pods, facts. Each version is read once.

A record lives as long as the terms of its job do. What follows from other objects (pods, nodes, quotas) is the
builder's to renew.
"""

from collections.abc import Sequence
from operator import is_not

from edl.api.job_view import Installation
from edl.jobs.core.objects import EdlObject
from edl.jobs.registry import job_kind_of
from edl.scheduler.snapshot.job_terms import JobTerms, NamespaceTerms, Refusal, read_job_terms
from edl.scheduler.snapshot.job_usage import JobUsage
from edl.scheduler.snapshot.objects import Invalid, Objects
from edl.scheduler.snapshot.ownership import JobIdentity, JobKey, JobNames
from edl.scheduler.snapshot.types import JobFacts, RoleFacts
from edl.scheduler.snapshot.versions import Versions


class JobRecord:
    __slots__ = ("facts", "job", "key", "made_of", "resource", "roles", "terms")
    facts: JobFacts

    def __init__(
        self, key: JobKey, terms: JobTerms | Invalid, job: EdlObject | None = None, resource: EdlObject | None = None
    ) -> None:
        self.key, self.terms, self.job, self.resource = key, terms, job, resource
        self.roles: tuple[RoleFacts, ...] | None = None
        self.made_of: tuple[tuple[RoleFacts, ...], JobUsage, int | None, Refusal] | None = None
        """What the facts were made of, beside the terms."""

    @property
    def identity(self) -> JobIdentity:
        terms = self.terms
        if isinstance(terms, JobTerms):
            return terms.identity
        return JobIdentity(terms.kind, terms.api_version, terms.namespace, terms.name, terms.uid)


class JobRecords:
    def __init__(self, installation: Installation | None) -> None:
        self.order: list[JobRecord] = []
        """Sorted by namespace, name, kind and version."""
        self.names = JobNames()
        """The same object as long as the identities are the same."""
        self.asks: frozenset[str] = frozenset()
        """Names of the resources that pods of jobs request."""
        self.have_pod_rules = False
        self.changed: list[JobRecord] = []
        """Those that were read since the last time."""
        self._installation = installation
        self._versions: Versions[EdlObject] = Versions(_key)
        self._namespace_terms: NamespaceTerms | None = None
        self._resources: Sequence[EdlObject] = ()
        self._invalid: Sequence[Invalid] = ()
        self._records: dict[JobKey, JobRecord] = {}

    def get(self, key: JobKey) -> JobRecord | None:
        return self._records.get(key)

    def take(self, objects: Objects, namespace_terms: NamespaceTerms) -> None:
        """The jobs that there are now, under terms that are the same object as long as they are the same."""
        gone, new = self._versions.update(objects.jobs)
        terms_differ = namespace_terms is not self._namespace_terms
        whole = terms_differ or not same_objects(objects.resources, self._resources) or objects.invalid != self._invalid
        self._namespace_terms, self._resources, self._invalid = namespace_terms, objects.resources, objects.invalid
        before = {_key(job): self._records[_key(job)] for job in gone}
        if whole or any(one.key in before for one in objects.invalid):
            before = self._records
            self._records = self._read_all(before, anew=terms_differ)
            self.changed = [record for record in self._records.values() if before.get(record.key) is not record]
        else:
            for key in before:
                del self._records[key]
            self.changed = [self._read(job, None, anew=True) for job in new]
            self._records.update((record.key, record) for record in self.changed)
        if self.changed or before:
            self._put_in_order(before)

    def _read_all(self, known: dict[JobKey, JobRecord], *, anew: bool) -> dict[JobKey, JobRecord]:
        """A job that validates goes before one of the same key that does not."""
        found = {}
        for one in self._invalid:
            record = known.get(one.key)
            if record is None or record.job is not None or record.terms != one:
                record = JobRecord(one.key, one)
            found[one.key] = record
        for job in self._versions:
            record = self._read(job, known.get(_key(job)), anew=anew)
            found[record.key] = record
        return found

    def _read(self, job: EdlObject, known: JobRecord | None, *, anew: bool) -> JobRecord:
        resource = job_kind_of(job).followed(job, self._resources)
        if not anew and known is not None and known.job is job and known.resource is resource:
            return known
        if self._namespace_terms is None:
            raise RuntimeError("jobs are read under the terms of their namespaces")
        terms = read_job_terms(job, resource, self._namespace_terms, self._installation)
        return JobRecord(_key(job), terms, job, resource)

    def _put_in_order(self, before: dict[JobKey, JobRecord]) -> None:
        """`before`: the records of jobs that are gone or have changed."""
        self.order = [self._records[key] for key in sorted(self._records)]
        terms = [record.terms for record in self.order if isinstance(record.terms, JobTerms)]
        self.asks = frozenset[str]().union(*{one.asks for one in terms})
        self.have_pod_rules = any(one.has_pod_rules for one in terms)
        known = {key: record.identity for key, record in before.items()}
        identities = [record.identity for record in self.changed]
        stays = all(known.get(one.key) == one for one in identities)
        if not stays or len(self.order) != len(self.names.jobs):
            self.names = JobNames(record.identity for record in self.order)


def _key(job: EdlObject) -> JobKey:
    return job.metadata.namespace, job.metadata.name, job.kind, job.api_version


def same_objects(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and not any(map(is_not, one, other))
