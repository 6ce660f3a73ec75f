"""Output of a job that is followed: log lines of rank 0 (or of all its pods), ends of pods, progress in its lines."""

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from edl.api.labels import LABEL_ROLE
from edl.cli.connect.job_logs import JobLogs, has_started
from edl.cli.connect.log_progress import LogProgress, drawn, is_bar
from edl.cli.connect.pod_logs import LogLine, LogRange
from edl.cli.connect.pods import Pod, job_pods
from edl.cli.output.pod_news import PodNews
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.protocol.progress import LastProgress, ProgressReport

if TYPE_CHECKING:
    from edl.cli.connect.jobs import JobSummary
    from edl.kube.rest.client import Client
    from edl.protocol.job_state import JobView

Choice = Literal["rank-0", "all", "none"]
CHOICES: tuple[Choice, ...] = ("rank-0", "all", "none")
AT_ONCE = 200  # lines that are shown at a time; of more the newest
POST_EVERY = 5.0
POLL_INTERVAL = 1.0  # seconds between looks at the job's pods


class JobOutput:
    """`read_progress`: looks for figures of the training in its lines."""

    def __init__(
        self,
        client: "Client",
        job: "JobSummary",
        *,
        choice: Choice = "rank-0",
        read_progress: bool = True,
        part: LogRange | None = None,
    ) -> None:
        self._client, self._job, self._choice, self._read_progress = client, job, choice, read_progress
        self._logs = JobLogs(client, job.namespace, self._deliver, part)
        self._lines: deque[str] = deque(maxlen=AT_ONCE)
        self._left_out = 0
        self._progress, self._news = LogProgress(), PodNews()
        self._pending: list[str] = []
        self._polled = float("-inf")
        self._posted, self._posted_at = ProgressReport(), 0.0

    async def renew(self, view: "JobView | None", *, final: bool = False) -> None:
        """Looks at the job's pods now and then: whose lines are to be shown, and what became of the others."""
        job, now = self._job, time.monotonic()
        if now - self._polled < POLL_INTERVAL and not final:
            return
        self._polled = now
        pods = await job_pods(self._client, job.kind, job.namespace, job.name, uid=job.uid)
        self._pending += self._news.of(pods)
        if self._choice == "none" and not self._read_progress:
            return
        chosen = list(pods) if self._choice == "all" else first_rank(pods, leading_role(job), view)
        self._logs.renew(chosen, [pod for pod in pods if pod not in chosen], now=time.time())

    def _deliver(self, line: LogLine) -> None:
        if self._read_progress:
            self._progress.read(line.text, time.monotonic())
        if self._choice == "none":
            return
        for text in drawn(line.text):
            if self._read_progress and is_bar(text):
                continue  # the table has a bar already
            self._left_out += len(self._lines) == AT_ONCE
            self._lines.append(f"{line.pod}: {text}" if self._choice == "all" else text)

    def news(self) -> list[str]:
        pending, self._pending = self._pending, []
        return pending

    def lines(self) -> list[str]:
        """Lines since the last call; the newest of them where there were too many to read."""
        found, left_out = list(self._lines), self._left_out
        self._lines.clear()
        self._left_out = 0
        note = (
            [f"... {left_out} lines more: `edl logs {self._job.name}{self._job.where}` has them all"]
            if left_out
            else []
        )
        return [*note, *found]

    def progress(self) -> LastProgress | None:
        return self._progress.last(time.monotonic())

    def to_post(self) -> ProgressReport | None:
        """What others should know of it, if that is news; now and then."""
        report, now = self._progress.report(), time.monotonic()
        if not report.said or report == self._posted or now - self._posted_at < POST_EVERY:
            return None
        self._posted, self._posted_at = report, now
        return report

    async def complete(self) -> None:
        await self._logs.complete()

    async def close(self) -> None:
        await self._logs.close()


def leading_role(job: "JobSummary") -> str:
    return JOB_KIND_BY_CRD[job.kind.crd_name].leading_role


def first_rank(pods: Sequence[Pod], role: str, view: "JobView | None") -> list[Pod]:
    """The pod of rank 0 if the job service knows ranks, else the first of its leading role that has started."""
    if view is not None and view.round and view.round.pods:
        named = [pod for pod in pods if pod["metadata"]["name"] == view.round.pods[0]]
        if named:
            return named
    leading = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(LABEL_ROLE) == role]
    return [pod for pod in leading or pods if has_started(pod)][:1]
