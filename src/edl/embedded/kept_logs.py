"""Logs of pods that are gone, kept with the job that they belonged to until somebody says that it is gone, too.

A job has a directory under its uid, a pod a directory in it. The oldest are given up where a job leaves too much.
"""

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from edl.api.labels import LABEL_UID
from edl.embedded.node.logs import files_of
from edl.embedded.node.pod.types import Pod

MOST_BYTES = 200 << 20  # of one job
LOG = "log"


class KeptLog(msgspec.Struct, frozen=True):
    pod: str
    path: Path
    """What was rotated away is beside it."""


class KeptLogs(msgspec.Struct, frozen=True):
    root: Path

    def keep(self, pod: Pod, log: Path) -> None:
        """Takes the log away from where the pod had it. Only pods of jobs are kept; an error on the way loses it."""
        job, files = pod.metadata.labels.get(LABEL_UID, ""), files_of(log)
        if not job or not files:
            return
        folder = self.root / job / pod.metadata.name
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            file.replace(folder / f"{LOG}{file.name.removeprefix(log.name)}")
        self._give_up_oldest(self.root / job)

    def _give_up_oldest(self, job: Path) -> None:
        pods = sorted(job.iterdir(), key=lambda folder: folder.stat().st_mtime)
        sizes = {pod: sum(file.stat().st_size for file in pod.iterdir()) for pod in pods}
        total = sum(sizes.values())
        for pod in pods[:-1]:
            if total <= MOST_BYTES:
                return
            shutil.rmtree(pod, ignore_errors=True)
            total -= sizes[pod]

    def of(self, job: str) -> Iterator[KeptLog]:
        """Of the job with this uid, the first that went first."""
        folder = self.root / job
        pods = sorted(folder.iterdir(), key=lambda pod: pod.stat().st_mtime) if job and folder.is_dir() else []
        yield from (KeptLog(pod.name, pod / LOG) for pod in pods if (pod / LOG).exists())

    def forget_others(self, jobs: Collection[str]) -> None:
        """Of all jobs but these."""
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if folder.name not in jobs:
                shutil.rmtree(folder, ignore_errors=True)
