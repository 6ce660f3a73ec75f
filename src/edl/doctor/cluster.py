"""Whether a cluster can run jobs: its version, the kinds, an operator that leads, its webhook, Brain, nodes, jobs."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from edl.api import timestamp
from edl.api.crds import crds
from edl.doctor.finding import Data, Finding, is_true, listed, note, ok, wrong

OLDEST = (1, 32)
INSTALL = "edl install | kubectl apply -f -"
UNSEEN_FOR = 30.0


class ClusterSeen(msgspec.Struct, kw_only=True):
    """What was read. None: it is not there. What may not be read is in `denied`, as the server called it."""

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
    denied: list[str] = []


def examine_cluster(seen: ClusterSeen, now: float) -> list[Finding]:
    return [
        *_denied(seen),
        *_version(seen.version),
        *_kinds(seen),
        *_operator(seen, now),
        *_webhook(seen),
        *_brain(seen),
        *_nodes(seen),
        *_jobs(seen, now),
    ]


def _denied(seen: ClusterSeen) -> Iterator[Finding]:
    for what in seen.denied:
        yield note("rights", f"you may not read {what}, so nothing is said about it", "ask for the right to list it")


def _version(version: str) -> Iterator[Finding]:
    numbers = version.removeprefix("v").split(".")[:2]
    if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        yield wrong("Kubernetes", f"{version} has no Jobs with spec.managedBy", f"upgrade the cluster to {wanted}")
    else:
        yield ok("Kubernetes", version)


# The kinds.


def _kinds(seen: ClusterSeen) -> Iterator[Finding]:
    missing = [name for name, crd in seen.kinds.items() if crd is None]
    older = [name for name, crd in seen.kinds.items() if crd is not None and _lacks(name, crd)]
    idle = [name for name, crd in seen.kinds.items() if crd is not None and not is_true(crd, "Established")]
    if missing:
        yield wrong("kinds", f"not registered: {listed(missing)}", f"{INSTALL}, or start an operator")
    if idle:
        yield wrong("kinds", f"registered but not served: {listed(idle)}", f"kubectl describe crd {idle[0]}")
    if older:
        yield wrong("kinds", f"older than this edl: {listed(older)}", f"renew them: {INSTALL}")
    if seen.kinds and not missing and not older and not idle:
        yield ok("kinds", f"{len(seen.kinds)} registered")


def _lacks(name: str, found: Data) -> bool:
    """Whether the registered kind misses fields that ours has."""
    ours = next(crd for crd in crds() if crd["metadata"]["name"] == name)
    return bool(_fields(ours["spec"]) - _fields(found["spec"]))


def _fields(spec: Data) -> set[tuple[str, ...]]:
    return {
        (version["name"], *path)
        for version in spec["versions"]
        for path in _paths((version.get("schema") or {}).get("openAPIV3Schema") or {})
    }


def _paths(schema: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in (schema.get("properties") or {}).items():
        yield (*at, name)
        yield from _paths(inner, (*at, name))
    if isinstance(items := schema.get("items"), dict):
        yield from _paths(items, (*at, "[]"))


# The operator.


def _operator(seen: ClusterSeen, now: float) -> Iterator[Finding]:
    start = f"{INSTALL}, or `edl operator`, or `edl up` on this machine"
    spec = (seen.lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if seen.lease is None:
        yield wrong("operator", "none has ever led here: nobody looks after jobs", start)
    elif not holder:
        yield wrong("operator", "none leads: the last one has stopped", start)
    else:
        yield _leader(holder, spec, now)
    if seen.deployment is not None:
        yield from _replicas(seen.deployment)
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


def _webhook(seen: ClusterSeen) -> Iterator[Finding]:
    hooks = (seen.webhook or {}).get("webhooks") or ()
    if any(not hook["clientConfig"].get("caBundle") for hook in hooks):
        words = "the webhook is not trusted yet: wrong jobs are stored, and refused in their status only"
        yield note("webhook", words, "an operator that leads writes its CA there within seconds; see its log")


def _brain(seen: ClusterSeen) -> Iterator[Finding]:
    """A claim without a class waits for a default one: where there is one, the API server writes it into the claim."""
    claim = seen.claim or {}
    if (claim.get("status") or {}).get("phase") == "Pending" and not claim["spec"].get("storageClassName"):
        words = "its claim waits for a volume, the cluster has no default StorageClass: trainers plan by local rules"
        fix = "make a class the default one, or install with --brain-storage '' or --brain-database SECRET"
        yield wrong("Brain", words, fix)
    elif seen.brain is not None and not (seen.brain.get("status") or {}).get("readyReplicas"):
        fix = "kubectl -n edl-system describe pods -l app.kubernetes.io/name=edl-brain"
        yield note("Brain", "it is not ready: trainers plan by local rules meanwhile", fix)


# Nodes and jobs.


def _nodes(seen: ClusterSeen) -> Iterator[Finding]:
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


def _jobs(seen: ClusterSeen, now: float) -> Iterator[Finding]:
    phases = Counter(phase_of(job) for job in seen.jobs)
    if phases:
        yield ok("jobs", ", ".join(f"{count} {phase or 'new'}" for phase, count in sorted(phases.items())))
    unseen = [_name(job) for job in seen.jobs if not phase_of(job) and _age(job, now) > UNSEEN_FOR]
    if unseen:
        fix = "is an operator of this version running? see `operator` above and its log"
        yield wrong("jobs", f"no operator has looked at {listed(unseen)}", fix)
    for kind, words in (("NameTaken", "blocked by names that others have"), ("Refused", "refused by the API server")):
        names = [_name(job) for job in seen.jobs if is_true(job, kind)]
        if names:
            yield wrong("jobs", f"{words}: {listed(names)}", f"edl doctor {names[0].rpartition('/')[2]}")
    invalid = [_name(job) for job in seen.jobs if (job.get("status") or {}) and _is_invalid(job)]
    if invalid:
        yield wrong("jobs", f"not valid: {listed(invalid)}", f"edl doctor {invalid[0].rpartition('/')[2]}")


def phase_of(job: Data) -> str:
    return str((job.get("status") or {}).get("phase") or "").lower()


def _is_invalid(job: Data) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any((one.get("type"), one.get("status")) == ("Valid", "False") for one in conditions)


def _age(job: Data, now: float) -> float:
    made = job["metadata"].get("creationTimestamp")
    return now - timestamp.seconds(made) if made else 0.0


def _name(job: Data) -> str:
    return f"{job['metadata'].get('namespace', '')}/{job['metadata']['name']}"
