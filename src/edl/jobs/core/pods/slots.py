"""The state of one pod of a slot: waiting, running, finished, failed by its own doing, or lost to others'.

The difference between failed and lost is the heart of fault tolerance: only what the program itself did (an exit code,
an OOM kill, a kill -9) may count against a job; eviction, preemption, a dead node or a deletion never does.
"""

from typing import Literal

import msgspec
from msgspec.structs import replace

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import ContainerStatus, Pod, Terminated
from edl.api.labels import LABEL_INDEX
from edl.jobs.core.pods.slot_names import slot_name

State = Literal["pending", "running", "succeeded", "failed", "lost"]


# Reasons that kubelet, the eviction API and the node life cycle put on a pod that they, and not its program, ended.
LOST_REASONS = frozenset(
    {
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "Preempted",
        "Preempting",
        "Shutdown",
        "Terminated",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)
# kubelet invents this exit (137) for a container that it can no longer find, such as after a crash of the node.
LOST_CONTAINER_REASON = "ContainerStatusUnknown"
OUT_OF_RESOURCE = "OutOf"  # OutOfcpu, OutOfmemory, OutOfnvidia.com/gpu...: refused by kubelet, never run
IMAGE_PROBLEMS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
CRASH_LOOP = "CrashLoopBackOff"
STARTUP_PROBLEMS = (
    *IMAGE_PROBLEMS,
    CRASH_LOOP,
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
MESSAGE_LENGTH = 400
OVERDUE_AFTER = 60.0


class SlotPod(msgspec.Struct, frozen=True, gc=False):
    """One pod, reduced to what its slot needs to know. `attempt` 0 is the slot's first pod."""

    name: str
    uid: str
    index: int
    attempt: int
    state: State
    leaving: bool = False
    overdue: bool = False
    """It should have been gone by now: its node does not answer."""
    ready: bool = False
    node: str = ""
    accepted: bool = False
    """Its node has begun with it."""
    created: float = 0.0
    started: float | None = None
    """When its container began to run (the last time it did)."""
    ended: float | None = None
    lingers: bool = False
    """Its role has ended, but something else in the pod has not."""
    ran: float = 0.0
    """Seconds that it has run, up to now or up to its end."""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""

    @property
    def live(self) -> bool:
        """It holds its slot: neither finished nor asked to go."""
        return not self.leaving and self.state in ("pending", "running")

    @property
    def cause(self) -> str:
        """Why it ended or does not run, in a few words; empty if there is nothing to tell."""
        if self.state in ("failed", "lost") and self.exit_code is not None and not self.reason:
            return f"exit code {self.exit_code}"
        if self.state == "failed" and self.exit_code is not None:
            return f"{self.reason}, exit code {self.exit_code}"
        return self.reason


def observe_pod(pod: Pod, job: str, role: str, now: float, *, alone: bool = False) -> SlotPod | None:
    index = _number(pod.metadata.labels.get(LABEL_INDEX, ""))
    if index is None:
        return None
    attempt = _attempt(pod.metadata.name, slot_name(job, role, index, alone=alone))
    if attempt is None:
        return None
    seen = read(pod, now, index=index, attempt=attempt)
    return _of_its_role(pod, seen) if seen.state == "running" else seen


def _of_its_role(pod: Pod, seen: SlotPod) -> SlotPod:
    """Pods of slots are never restarted in place: when container 0 has ended, so has the role, whatever else runs. If
    nothing else does, kubelet is about to say that the pod has ended, which then stays for its log."""
    own = role_container(pod)
    ended = own.state.terminated if own is not None else None
    if ended is None:
        return seen
    state: State = "failed" if ended.exit_code else "succeeded"
    over = [status for status in pod.status.container_statuses if status.state.terminated is not None]
    lingers = len(over) < len(pod.spec.containers)
    reason = "" if ended.reason in ("Error", "Completed") else ended.reason
    message = ended.message[-MESSAGE_LENGTH:].strip()
    return replace(seen, state=state, lingers=lingers, exit_code=ended.exit_code, reason=reason, message=message)


def read(pod: Pod, now: float, *, index: int = -1, attempt: int = 0) -> SlotPod:
    """One pod as observed, also one that fills no slot (a ReplicaSet's)."""
    ended = _ended(pod)
    state = _state(pod, ended)
    started = _started(pod)
    ready = pod.status.condition("Ready")
    leaves_by = _time(pod.metadata.deletion_timestamp)
    reason, message = _reason(pod, state, ended)
    return SlotPod(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        index=index,
        attempt=attempt,
        state=state,
        leaving=leaves_by is not None,
        overdue=leaves_by is not None and now > leaves_by + OVERDUE_AFTER,
        ready=ready is not None and ready.status == "True",
        node=pod.spec.node_name,
        accepted=pod.status.start_time is not None,
        created=_time(pod.metadata.creation_timestamp) or now,
        started=started,
        ended=_time(ended.finished_at) if ended is not None else None,
        ran=_ran(pod, started, ended, now),
        exit_code=ended.exit_code if ended is not None else None,
        reason=reason,
        message=message[-MESSAGE_LENGTH:].strip(),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _attempt(name: str, slot: str) -> int | None:
    if name == slot:
        return 0
    return _number(name[len(slot) + 1 :]) if name.startswith(f"{slot}-") else None


def _state(pod: Pod, ended: Terminated | None) -> State:
    phase = pod.status.phase
    if phase == "Succeeded":
        return "succeeded"
    if phase == "Failed":
        return "lost" if _lost(pod, ended) else "failed"
    return "running" if phase == "Running" else "pending"


def _lost(pod: Pod, ended: Terminated | None) -> bool:
    if pod.metadata.deletion_timestamp is not None:
        return True
    disrupted = pod.status.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return True
    if pod.status.reason in LOST_REASONS or pod.status.reason.startswith(OUT_OF_RESOURCE):
        return True
    return ended is not None and ended.reason == LOST_CONTAINER_REASON


def _ended(pod: Pod) -> Terminated | None:
    """How the role's container ended; if it did well, the first other one that did not."""
    own = role_container(pod)
    ended = own.state.terminated if own is not None else None
    if ended is not None and ended.exit_code != 0:
        return ended
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    others = (status.state.terminated for status in statuses)
    return next((other for other in others if other is not None and other.exit_code != 0), ended)


def role_container(pod: Pod) -> ContainerStatus | None:
    """Container 0 is the role; statuses come in an order of their own."""
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    return next((status for status in pod.status.container_statuses if status.name == name), None)


def _started(pod: Pod) -> float | None:
    own = role_container(pod)
    if own is not None:
        running, ended = own.state.running, own.state.terminated
        if running is not None:
            return _time(running.started_at)
        if ended is not None and ended.started_at:
            return _time(ended.started_at)
    return _time(pod.status.start_time) if pod.status.phase == "Running" else None


def _ran(pod: Pod, started: float | None, ended: Terminated | None, now: float) -> float:
    """From the pod's own start, as every reader of the API can compute it."""
    begun = _time(pod.status.start_time) or started
    if begun is None:
        return 0.0
    end = now
    if pod.finished:
        end = (_time(ended.finished_at) if ended is not None else None) or begun
    return max(0.0, end - begun)


def _reason(pod: Pod, state: State, ended: Terminated | None) -> tuple[str, str]:
    if state in ("failed", "lost"):
        reason = pod.status.reason or (ended.reason if ended is not None and ended.reason != "Error" else "")
        return reason, (ended.message if ended is not None else "") or pod.status.message
    if state == "succeeded":
        return "", ""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in STARTUP_PROBLEMS:
            last = status.last_state.terminated
            if waiting.reason == CRASH_LOOP and last is not None:
                return CRASH_LOOP, last_words(last)
            return _steady(waiting.reason), waiting.message or (last.message if last is not None else "")
    scheduled = pod.status.condition("PodScheduled")
    if not pod.spec.node_name and scheduled is not None and scheduled.status == "False":
        return scheduled.reason, scheduled.message
    return "", ""


def last_words(ended: Terminated) -> str:
    """How a container ended, with the last line that it left: the same however long its node waits to start it anew."""
    what = ended.reason if ended.reason not in ("", "Error", "Completed") else ""
    code = ", ".join(part for part in (what, f"exit code {ended.exit_code}") if part)
    line = ended.message.strip().rpartition("\n")[2]
    return f"{code}: {line}" if line else code


def _steady(reason: str) -> str:
    """kubelet alternates between trying and waiting; to us that is one state."""
    return "ImagePullBackOff" if reason == "ErrImagePull" else reason


def _time(text: str | None) -> float | None:
    return timestamp.seconds(text) if text else None
