"""What a node that has just started makes of a pod that an earlier run of it had started. Pure.

Processes do not outlive their node, so whatever ran then is lost. The restart policy decides what follows; where it
allows no restart the pod has failed through no fault of its own, and says so.
"""

from edl.api import timestamp
from edl.api.pod import ContainerStatus, Terminated
from edl.embedded.node.lifecycle import Ended, Record, State
from edl.embedded.node.pod import Pod

LOST = "The process was lost when its node stopped"


def restore(pod: Pod, records: dict[str, Record], now: float) -> bool:
    """Fill the records from the pod's status; True if something that ran was lost."""
    lost = False
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        record = records.get(status.name)
        if record is not None:
            lost |= _restore(record, status, now)
    return lost


def _restore(record: Record, status: ContainerStatus, now: float) -> bool:
    record.restarts = status.restart_count
    state, last = status.state, status.last_state.terminated
    record.previous = _ended(last) if last is not None else None
    if state.terminated is not None:
        record.state, record.ended = State.ENDED, _ended(state.terminated)
    elif state.running is not None:
        begun = timestamp.seconds(state.running.started_at) if state.running.started_at else now
        record.state = State.ENDED
        record.ended = Ended(137, "ContainerStatusUnknown", LOST, begun, now)
        return True
    elif record.previous is not None:
        record.state, record.ended, record.previous = State.ENDED, record.previous, None
    return False


def _ended(state: Terminated) -> Ended:
    started, finished = (timestamp.seconds(text) if text else 0.0 for text in (state.started_at, state.finished_at))
    return Ended(state.exit_code, state.reason, state.message, started, finished, signal=state.signal)
