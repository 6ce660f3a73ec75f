"""Log lines of a job's pods, of those that come later too: streams that begin and end with the pods that are chosen."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edl.api.kubernetes import timestamp
from edl.cli.connect.pod_logs import LogLine, LogRange, pod_log
from edl.cli.connect.pods import Pod

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

Deliver = Callable[[LogLine], None]
COMPLETE = 5.0  # seconds that the last lines of pods that have ended may take


class JobLogs:
    """`renew` is told the chosen pods again and again; each is read once, from its first line or from `part` on."""

    def __init__(self, client: "Client", namespace: str, deliver: Deliver, part: LogRange | None = None) -> None:
        self._client, self._namespace, self._deliver = client, namespace, deliver
        self._part = part or LogRange(follow=True)
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._late: set[str] = set()  # pods that had begun to write and were not chosen
        self.missing: dict[str, str] = {}
        """Pods whose log could not be had, and why."""

    def renew(self, chosen: Sequence[Pod], others: Sequence[Pod] = (), *, now: float) -> None:
        """A pod that wrote before it was chosen is read from now on: its lines of before are nobody's who reads on."""
        for pod in chosen:
            uid = pod["metadata"]["uid"]
            if uid not in self._streams and has_started(pod):
                part = self._part._replace(since=timestamp.text(now), tail=None) if uid in self._late else self._part
                self._streams[uid] = asyncio.create_task(self._read(pod["metadata"]["name"], part))
        for pod in others:
            uid = pod["metadata"]["uid"]
            if has_started(pod):
                self._late.add(uid)
            if (stream := self._streams.get(uid)) is not None and not ends(pod):
                stream.cancel()
                del self._streams[uid]

    async def _read(self, pod: str, part: LogRange) -> None:
        """A pod whose log is gone does not end the others'."""
        from edl.kube.rest.errors import KubeError

        try:
            async for line in pod_log(self._client, self._namespace, pod, part):
                self._deliver(line)
        except KubeError as error:
            self.missing[pod] = str(error)

    async def complete(self, timeout: float = COMPLETE) -> None:
        """Waits until what was written is read, of pods that have ended."""
        if self._streams:
            await asyncio.wait(self._streams.values(), timeout=timeout)

    async def close(self) -> None:
        for stream in self._streams.values():
            stream.cancel()
        await asyncio.gather(*self._streams.values(), return_exceptions=True)


def has_started(pod: Pod) -> bool:
    """Whether its first container has begun, so that there is a log."""
    for container in ((pod.get("status") or {}).get("containerStatuses") or ())[:1]:
        state = container.get("state") or {}
        return "running" in state or "terminated" in state
    return False


def ends(pod: Pod) -> bool:
    """Whether no more will come of it soon."""
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return over or bool(pod["metadata"].get("deletionTimestamp"))
