"""Diagnosis of a cluster: its version, kinds, leading operator, webhook, Brain, nodes and jobs."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from edl.api.kubernetes import timestamp, version
from edl.doctor.credentials import examine_credentials
from edl.doctor.finding import Data, Finding, is_true, listed, note, ok, wrong
from edl.jobs.crd_fields import Path, fields_of, named_fields
from edl.jobs.crds import crds
from edl.operator.credentials.identity import Identity

INSTALL = "edl install | kubectl apply -f -"
UNSEEN_FOR = 30.0
_PROBLEMS = {
    "NameTaken": "blocked by names that others have",
    "WaitsForState": "restored, and wait for the state of their backup",
    "Refused": "refused by the API server",
    "Stalled": "run without progress",
}
CAUSES = 3  # of failed jobs that are told in one line


class ClusterObjects(msgspec.Struct, kw_only=True):
    """The objects that were read; None: it does not exist. `denied` names what the caller may not read."""

    version: str
    kinds: dict[str, Data | None] = {}
    lease: Data | None = None
    deployment: Data | None = None
    service: Data | None = None
    webhook: Data | None = None
    brain: Data | None = None
    claim: Data | None = None
    nodes: list[Data] = []
    jobs: list[Data] = []
    identity: Identity | None = None
    """None too if the caller may not read the installation's Secret."""
    secrets: list[Data] = []
    pods: list[Data] = []
    """Those of jobs, as far as the identity is known."""
    denied: list[str] = []


def examine_cluster(seen: ClusterObjects, now: float) -> list[Finding]:
    return [
        *_denied(seen),
        *_version(seen.version),
        *_kinds(seen),
        *_kinds_over_time(seen),
        *_operator(seen, now),
        *_webhook(seen),
        *examine_credentials(seen.identity, seen.secrets, seen.pods, seen.webhook),
        *_brain(seen),
        *_nodes(seen),
        *_jobs(seen, now),
    ]


def _denied(seen: ClusterObjects) -> Iterator[Finding]:
    for what in seen.denied:
        yield note("rights", f"you may not read {what}, so nothing is said about it", "ask for the right to list it")


def _version(found: str) -> Iterator[Finding]:
    if version.is_too_old(found):
        fix = f"upgrade the cluster to {version.oldest()}"
        yield wrong("Kubernetes", f"{found} has no Jobs with spec.managedBy", fix)
    else:
        yield ok("Kubernetes", found)


# The kinds.


def _kinds(seen: ClusterObjects) -> Iterator[Finding]:
    missing = [name for name, crd in seen.kinds.items() if crd is None]
    older = [name for name, crd in seen.kinds.items() if crd is not None and _lacks(name, crd)]
    idle = [name for name, crd in seen.kinds.items() if crd is not None and not is_true(crd, "Established")]
    if missing:
        yield wrong("kinds", f"not registered: {listed(missing)}", f"{INSTALL}, or start an operator")
    if idle:
        yield wrong("kinds", f"registered but not served: {listed(idle)}", f"kubectl describe crd {idle[0]}")
    if older:
        missing_fields = named_fields(_lacks(older[0], seen.kinds[older[0]] or {}))
        message = f"older than this edl: {listed(older)} (it lacks {missing_fields})"
        yield wrong("kinds", message, f"renew them: {INSTALL}")
    if seen.kinds and not missing and not older and not idle:
        yield ok("kinds", f"{len(seen.kinds)} registered")


def _lacks(name: str, found: Data) -> set[Path]:
    """Fields that ours has and the registered kind misses."""
    return fields_of(_ours(name)) - fields_of(found["spec"])


def _adds(name: str, found: Data) -> set[Path]:
    """Fields that the registered kind has and ours does not know."""
    return fields_of(found["spec"]) - fields_of(_ours(name))


def _ours(name: str) -> Data:
    spec: Data = next(crd["spec"] for crd in crds() if crd["metadata"]["name"] == name)
    return spec


def _kinds_over_time(seen: ClusterObjects) -> Iterator[Finding]:
    """What an upgrade or its reverse left behind."""
    there = {name: crd for name, crd in seen.kinds.items() if crd is not None}
    newer = {name: extra for name, crd in there.items() if (extra := _adds(name, crd))}
    if newer:
        name, extra = next(iter(newer.items()))
        message = f"newer than this edl: {listed(list(newer))} (it knows no {named_fields(extra)})"
        yield note("kinds", message, "use the edl of the operators; after a rollback, leave them: they serve both")
    for name, crd in there.items():
        known = {version["name"] for version in _ours(name)["versions"]}
        if unknown := sorted(set((crd.get("status") or {}).get("storedVersions") or ()) - known):
            message = f"{name} may be stored as {listed(unknown)}, which this edl does not know"
            yield wrong("kinds", message, "use a newer edl: it reads them, and stores them anew")


# The operator.


def examine_leader(lease: Data | None, now: float) -> Finding:
    """Whether an operator leads, by its lease."""
    start = f"{INSTALL}, or `edl operator`, or `edl up` on this machine"
    spec = (lease or {}).get("spec") or {}
    if lease is None:
        return wrong("operator", "none has ever led here: nobody looks after jobs", start)
    if not spec.get("holderIdentity"):
        return wrong("operator", "none leads: the last one has stopped", start)
    return _leader(spec["holderIdentity"], spec, now)


def _operator(seen: ClusterObjects, now: float) -> Iterator[Finding]:
    if not any("leases" in what for what in seen.denied):
        yield examine_leader(seen.lease, now)
    if seen.deployment is not None:
        yield from _replicas(seen.deployment)
        holder = ((seen.lease or {}).get("spec") or {}).get("holderIdentity")
        if holder and seen.service is None:
            fix = "kubectl -n edl-system logs -l app.kubernetes.io/name=edl-operator | grep 'job service'"
            yield wrong("job service", "no EndpointSlice edl-job-service: pods cannot reach the operator", fix)


def _leader(holder: str, spec: Data, now: float) -> Finding:
    silent = now - timestamp.seconds(spec["renewTime"]) if spec.get("renewTime") else 0.0
    if silent > 2 * float(spec.get("leaseDurationSeconds") or 15):
        fix = "see whether its pod or process is alive, and whether this machine's clock is right"
        return wrong("operator", f"{holder} leads but has been silent for {silent:.0f} s", fix)
    return ok("operator", f"{holder} leads")


def _replicas(deployment: Data) -> Iterator[Finding]:
    wanted = deployment["spec"].get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas", 0)
    if ready < wanted:
        fix = "kubectl -n edl-system describe pods -l app.kubernetes.io/name=edl-operator"
        yield note("operator", f"{ready} of {wanted} replicas are ready", fix)
    elif wanted == 1:
        yield note("operator", "a single replica: jobs go on without it, but nothing is scaled or replaced meanwhile")


def _webhook(seen: ClusterObjects) -> Iterator[Finding]:
    hooks = (seen.webhook or {}).get("webhooks") or ()
    if any(not hook["clientConfig"].get("caBundle") for hook in hooks):
        message = "the webhook is not trusted yet: wrong jobs are stored, and refused in their status only"
        yield note("webhook", message, "an operator that leads writes its CA there within seconds; see its log")


def _brain(seen: ClusterObjects) -> Iterator[Finding]:
    """A claim without a class waits for a default one: where there is one, the API server writes it into the claim."""
    claim = seen.claim or {}
    if (claim.get("status") or {}).get("phase") == "Pending" and not claim["spec"].get("storageClassName"):
        message = "its claim waits for a volume, the cluster has no default StorageClass: trainers plan by local rules"
        fix = "make a class the default one, or install with --brain-storage '' or --brain-database SECRET"
        yield wrong("Brain", message, fix)
    elif seen.brain is not None and not (seen.brain.get("status") or {}).get("readyReplicas"):
        fix = "kubectl -n edl-system describe pods -l app.kubernetes.io/name=edl-brain"
        yield note("Brain", "it is not ready: trainers plan by local rules meanwhile", fix)


# Nodes and jobs.


def _nodes(seen: ClusterObjects) -> Iterator[Finding]:
    if any("nodes" in what for what in seen.denied):
        return
    ready = [one for one in seen.nodes if is_true(one, "Ready")]
    usable = [one for one in ready if not one["spec"].get("unschedulable")]
    lost = [one["metadata"]["name"] for one in seen.nodes if one not in ready]
    if lost:
        yield note("nodes", f"not ready: {listed(lost)}", f"kubectl describe node {lost[0]}")
    if not usable:
        yield wrong("nodes", "none takes pods", "add nodes (`edl node` on a machine), or `kubectl uncordon` one")
    else:
        yield ok("nodes", f"{len(usable)} of {len(seen.nodes)} take pods")


def _jobs(seen: ClusterObjects, now: float) -> Iterator[Finding]:
    phases = Counter(phase_of(job) for job in seen.jobs)
    if phases:
        yield ok("jobs", ", ".join(f"{count} {phase or 'new'}" for phase, count in sorted(phases.items())))
    yield from _failed([job for job in seen.jobs if phase_of(job) == "failed"])
    unseen = [_name(job) for job in seen.jobs if not phase_of(job) and _age(job, now) > UNSEEN_FOR]
    if unseen:
        fix = "is an operator of this version running? see `operator` above and its log"
        yield wrong("jobs", f"no operator has looked at {listed(unseen)}", fix)
    for kind, problem in _PROBLEMS.items():
        yield from _of_jobs(problem, [job for job in seen.jobs if is_true(job, kind)])
    yield from _of_jobs("not valid", [job for job in seen.jobs if (job.get("status") or {}) and _is_invalid(job)])


def _of_jobs(problem: str, jobs: list[Data]) -> Iterator[Finding]:
    if jobs:
        fix = f"edl doctor {jobs[0]['metadata']['name']}{_flags(jobs[0])}"
        yield wrong("jobs", f"{problem}: {listed([_name(job) for job in jobs])}", fix)


def _failed(jobs: list[Data]) -> Iterator[Finding]:
    if jobs:
        causes = "; ".join(f"{_name(job)} ({failure_of(job)})" for job in jobs[:CAUSES])
        more = f"; and {len(jobs) - CAUSES} more" if len(jobs) > CAUSES else ""
        fix = f"edl doctor {jobs[0]['metadata']['name']}{_flags(jobs[0])}; delete those that are of no use any more"
        yield wrong("jobs", f"failed: {causes}{more}", fix)


def phase_of(job: Data) -> str:
    return str((job.get("status") or {}).get("phase") or "").lower()


def failure_of(job: Data) -> str:
    """Why a failed job failed, in one line."""
    status = job.get("status") or {}
    cause = status.get("root_cause") or status.get("rootCause") or {}
    return " ".join(str(status.get("reason") or cause.get("reason") or "no reason is known").split())


def _flags(job: Data) -> str:
    namespace = job["metadata"].get("namespace", "default")
    return f" -n {namespace}" if namespace != "default" else ""


def _is_invalid(job: Data) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any((one.get("type"), one.get("status")) == ("Valid", "False") for one in conditions)


def _age(job: Data, now: float) -> float:
    made = job["metadata"].get("creationTimestamp")
    return now - timestamp.seconds(made) if made else 0.0


def _name(job: Data) -> str:
    return f"{job['metadata'].get('namespace', '')}/{job['metadata']['name']}"
