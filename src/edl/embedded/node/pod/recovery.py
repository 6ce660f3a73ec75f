"""Recovers a pod's records after a restart of its node, from the status that the last run wrote. Pure.

Processes do not outlive their node, so whatever ran then is lost. The restart policy decides what follows; where it
allows no restart the pod has failed through no fault of its own, and says so.
"""

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.pod import ContainerStatus, Terminated
from edl.embedded.node.pod.lifecycle import ContainerPhase, ContainerRecord, Termination
from edl.embedded.node.pod.types import Pod

LOST = "The process was lost when its node stopped"


def restore(pod: Pod, records: dict[str, ContainerRecord], now: float) -> bool:
    """Fill the records from the pod's status; True if something that ran was lost."""
    lost = False
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        record = records.get(status.name)
        if record is not None:
            lost |= _restore(record, status, now)
    return lost


def _restore(record: ContainerRecord, status: ContainerStatus, now: float) -> bool:
    record.restarts = status.restart_count
    state, last = status.state, status.last_state.terminated
    record.previous = _ended(last) if last is not None else None
    if state.terminated is not None:
        record.state, record.ended = ContainerPhase.ENDED, _ended(state.terminated)
    elif state.running is not None:
        begun = timestamp.seconds(state.running.started_at) if state.running.started_at else now
        record.state = ContainerPhase.ENDED
        record.ended = Termination(137, "ContainerStatusUnknown", LOST, begun, now)
        return True
    elif record.previous is not None:
        record.state, record.ended, record.previous = ContainerPhase.ENDED, record.previous, None
    return False


def _ended(state: Terminated) -> Termination:
    started, finished = (timestamp.seconds(text) if text else 0.0 for text in (state.started_at, state.finished_at))
    return Termination(state.exit_code, state.reason, state.message, started, finished, signal=state.signal)
