"""News of a job's pods, as lines for a reader: which one ended, how, and with which last words."""

from collections.abc import Mapping, Sequence
from typing import Any

from edl.cli.connect.pods import Pod

WORDS = 6  # last lines of a pod that failed
KILLED = 128


class PodNews:
    """Remembers which ends it has reported."""

    def __init__(self) -> None:
        self._there: dict[str, tuple[str, bool]] = {}  # by uid: name, and whether its end is reported or was asked for

    def of(self, pods: Sequence[Pod]) -> list[str]:
        """Lines about what changed since the last call."""
        news: list[str] = []
        now: dict[str, tuple[str, bool]] = {}
        for pod in pods:
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            reported = self._there.get(uid, ("", False))[1]
            if not reported and (end := ended(pod)):
                news.append(f"{name} {end}")
                reported = True
            now[uid] = name, reported or bool(pod["metadata"].get("deletionTimestamp")) or _succeeded(pod)
        gone = [name for uid, (name, reported) in self._there.items() if uid not in now and not reported]
        self._there = now
        return [*news, *(f"{name} is gone" for name in gone)]


def ended(pod: Pod) -> str:
    """How a pod failed; empty if it has not."""
    status: Mapping[str, Any] = pod.get("status") or {}
    if status.get("reason"):
        return f"was lost: {status['reason']}"
    for container in (status.get("containerStatuses") or ())[:1]:
        end = (container.get("state") or {}).get("terminated")
        if end and end.get("exitCode"):
            return _failure(end)
    return ""


def _failure(end: Mapping[str, Any]) -> str:
    code, reason = end["exitCode"], end.get("reason", "")
    how = "was killed" if code > KILLED or reason == "OOMKilled" else "failed"
    why = f", {reason}" if reason not in ("", "Error") else ""
    last = str(end.get("message") or "").strip().splitlines()[-WORDS:]
    return f"{how} (exit code {code}{why})" + "".join(f"\n  | {line}" for line in last)


def _succeeded(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"
