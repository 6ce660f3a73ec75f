"""Pod status and ready count of the Table of pods, by kubectl's rules."""

from collections.abc import Iterator
from typing import Any

from edl.embedded.server.tables.ages import since
from edl.embedded.server.verbs.call import Object


def ready(pod: Object) -> str:
    total = len(pod["spec"].get("containers") or ()) + len(_sidecars(pod))
    return f"{_read(pod)[1]}/{total}"


def status(pod: Object) -> str:
    return _read(pod)[0]


def restarts(pod: Object) -> str:
    counted = _read(pod)[2]
    total = sum(container.get("restartCount", 0) for container in counted)
    ends = [container.get("lastState", {}).get("terminated", {}).get("finishedAt") for container in counted]
    latest = max((end for end in ends if end), default="")
    return f"{total} ({since(latest)} ago)" if total and latest else str(total)


def _sidecars(pod: Object) -> set[str]:
    return {c["name"] for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"}


def _read(pod: Object) -> tuple[str, int, list[Object]]:
    """(status, ready containers, the containers whose restarts count)."""
    observed = pod.get("status") or {}
    shown = observed.get("reason") or observed.get("phase") or ""
    if any(c.get("reason") == "SchedulingGated" for c in _conditions(pod, "PodScheduled")):
        shown = "SchedulingGated"
    count = 0
    sidecars = [c for c in observed.get("initContainerStatuses") or () if c["name"] in _sidecars(pod)]
    initial = _initializing(pod)
    if initial and not any(c["status"] == "True" for c in _conditions(pod, "Initialized")):
        shown, counted = initial, list(observed.get("initContainerStatuses") or ())
    else:
        counted = [*sidecars, *(observed.get("containerStatuses") or ())]
        shown, count = _running_status(pod, shown)
    count += sum(1 for c in sidecars if c.get("started") and c.get("ready"))
    return _ending(pod, shown), count, counted


def _conditions(pod: Object, kind: str) -> Iterator[Object]:
    return (c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] == kind)


def _initializing(pod: Object) -> str:
    """`Init:...` while an init container has not succeeded, else nothing."""
    for index, container in enumerate(pod["status"].get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if container["name"] in _sidecars(pod) and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended_status(ended)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(pod['spec'].get('initContainers') or ())}"
    return ""


def _ended_status(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _running_status(pod: Object, shown: str) -> tuple[str, int]:
    count, running, failed = 0, False, ""
    for container in reversed(pod["status"].get("containerStatuses") or ()):
        state: Any = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            shown = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            shown = _ended_status(state["terminated"])
            failed = shown if state["terminated"].get("exitCode", 0) else failed
        elif container.get("ready") and "running" in state:
            running, count = True, count + 1
    if shown == "Completed":
        if running and any(c["status"] == "True" for c in _conditions(pod, "Ready")):
            shown = "Running"
        else:
            shown = failed or ("NotReady" if running else shown)
    return shown, count


def _ending(pod: Object, shown: str) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return shown
    if pod["status"].get("reason") == "NodeLost":
        return "Unknown"
    return shown if pod["status"].get("phase") in ("Succeeded", "Failed") else "Terminating"
