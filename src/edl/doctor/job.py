"""Diagnosis of one job: its spec, what it waits for, its pods one by one, and why it failed."""

from collections.abc import Iterator, Sequence

from edl.api.annotations import PAUSE, PIN
from edl.api.labels import LABEL_ROLE
from edl.api.schema.problem import errors
from edl.doctor.cluster import failure_of, phase_of
from edl.doctor.finding import Data, Finding, condition, is_true, note, ok, wrong
from edl.jobs.admission import check

_IMAGE = "check its name and whether nodes may fetch it (imagePullSecrets)"
_COMMAND = "check the command and the image: the program is not in it, or may not be run"
_BY_REASON = {
    "ImagePullBackOff": _IMAGE,
    "ErrImagePull": _IMAGE,
    "ErrImageNeverPull": _IMAGE,
    "InvalidImageName": _IMAGE,
    "CreateContainerConfigError": "a ConfigMap, Secret or key that the pod names is missing: make it",
    "CreateContainerError": _COMMAND,
    "RunContainerError": _COMMAND,
    "CrashLoopBackOff": "it starts and fails, again and again: read its log",
    "OOMKilled": "raise resources.limits.memory of its role, or make the batch smaller",
    "Evicted": "its node ran out of something: set requests that are true",
}
_BY_CODE = {
    126: _COMMAND,
    127: _COMMAND,
    137: "it was killed: most often for memory; raise resources.limits.memory of its role",
    139: "it crashed in native code; a version of a library does not fit",
}


def examine_job(
    job: Data, pods: Sequence[Data], nodes: Sequence[Data], flags: str = "", *, leader: Finding | None = None
) -> list[Finding]:
    """`flags` are what a command needs to find the job, such as ` -n ml`; `leader` is what was found out about the
    operator that leads, None: it is not known. Nothing wrong: one finding that says so."""
    found = [*_operator(job, leader), *_spec(job), *_conditions(job, flags), *_held(job, flags)]
    found += [*_pods(pods, nodes, flags), *_end(job, flags)]
    if not any(one.level == "wrong" for one in found):
        found.insert(
            0, ok("job", f"{phase_of(job) or 'new'}: {(job.get('status') or {}).get('reason') or 'as it should be'}")
        )
    return found


def _operator(job: Data, leader: Finding | None) -> Iterator[Finding]:
    """A job that has ended needs nobody."""
    if leader is not None and leader.level == "wrong" and phase_of(job) not in ("succeeded", "failed"):
        yield leader


def _spec(job: Data) -> Iterator[Finding]:
    for problem in errors(check(job).problems):
        yield wrong("spec", str(problem), "mend it: kubectl edit, or submit it anew; `edl validate` checks a file")


def _conditions(job: Data, flags: str) -> Iterator[Finding]:
    if is_true(job, "Queued"):
        said = condition(job, "Queued")
        fix = f"`edl top` shows who uses the room, `edl plan` what would be decided; `edl describe {_name(job)}{flags}`"
        yield wrong("queue", f"it waits ({said.get('reason')}): {said.get('message')}", fix)
    if is_true(job, "NameTaken"):
        yield wrong("names", str(condition(job, "NameTaken").get("message")), "delete or rename what has the name")
    if is_true(job, "WaitsForState"):
        fix = "kubectl apply -f the file that `edl backup` wrote; it goes on by itself"
        yield wrong("state", str(condition(job, "WaitsForState").get("message")), fix)
    if is_true(job, "Refused"):
        said = condition(job, "Refused")
        fix = "raise the quota of the namespace, or mend the template; it is tried again by itself"
        yield wrong("API server", f"{said.get('reason')}: {said.get('message')}", fix)
    if is_true(job, "Stalled"):
        said = condition(job, "Stalled")
        fix = f"see where its processes wait: edl logs {_name(job)}{flags} --tail 50"
        yield wrong("progress", f"{said.get('reason')}: {said.get('message')}", fix)
    if is_true(job, "Warned"):
        yield note("spec", str(condition(job, "Warned").get("message")))
    status = job.get("status") or {}
    behind = status.get("observedGeneration", status.get("observed_generation"))
    if behind is not None and behind < job["metadata"].get("generation", 0):
        yield note("operator", "it has not looked at the last edit yet", "if that lasts: edl doctor")


def _held(job: Data, flags: str) -> Iterator[Finding]:
    """What its owner asked for, and may have forgotten."""
    spec, annotations = job.get("spec") or {}, job["metadata"].get("annotations") or {}
    if spec.get("suspend"):
        yield note("size", "suspended by spec.suspend: it has no pods", "set spec.suspend to false")
    if spec.get("pause") or annotations.get(PAUSE) == "true":
        yield note("size", "paused: its size stays as it is", f"edl resume {_name(job)}{flags}")
    if annotations.get(PIN) == "true":
        yield note("size", "pinned by edl.dev/pin: exactly the size that is written", "remove the annotation")


# Pods.


def _pods(pods: Sequence[Data], nodes: Sequence[Data], flags: str) -> Iterator[Finding]:
    lost = {one["metadata"]["name"] for one in nodes if not is_true(one, "Ready")}
    for pod in pods:
        name, about = pod["metadata"]["name"], f"pod {pod['metadata']['name']}"
        phase = (pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
            continue
        if pod["spec"].get("nodeName") in lost:
            node = pod["spec"]["nodeName"]
            yield wrong(about, f"its node {node} is not ready", f"kubectl describe node {node}; it is replaced soon")
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("reason") == "Unschedulable":
            fix = "free room or relax its rules; a plan that Kubernetes cannot place is withdrawn after 15 s"
            yield wrong(about, f"no node takes it: {scheduled.get('message')}", fix)
        yield from _containers(pod, name, flags)


def _containers(pod: Data, name: str, flags: str) -> Iterator[Finding]:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        last = (one.get("lastState") or {}).get("terminated") or {}
        reason = waiting.get("reason") or ""
        if reason in ("", "ContainerCreating", "PodInitializing"):
            continue
        known = _BY_REASON.get(str(last.get("reason"))) if reason == "CrashLoopBackOff" else None
        fix = known or _BY_REASON.get(reason) or f"kubectl describe pod {name}{flags}"
        if reason == "CrashLoopBackOff":
            fix = f"{fix}: kubectl logs --previous {name}{flags}"
        role = (pod["metadata"].get("labels") or {}).get(LABEL_ROLE, "container")
        said = f": {waiting['message']}" if waiting.get("message") else ""
        yield wrong(f"pod {name}", f"{role} does not come up: {reason}{said}", fix)


# The end.


def _end(job: Data, flags: str) -> Iterator[Finding]:
    if phase_of(job) != "failed":
        return
    status = job.get("status") or {}
    cause = status.get("root_cause") or status.get("rootCause") or {}
    code = cause.get("exit_code", cause.get("exitCode"))
    known = _BY_REASON.get(str(cause.get("reason"))) or (_BY_CODE.get(code) if isinstance(code, int) else None)
    fix = f"{known or 'mend what its last lines say'}; edl logs {_name(job)}{flags} --tail 50; then submit it again"
    yield wrong("job", f"failed: {failure_of(job)}", fix)
    if message := str(cause.get("message") or "").strip():
        yield note("last lines", message.rpartition("\n")[2])


def _name(job: Data) -> str:
    return str(job["metadata"]["name"])
