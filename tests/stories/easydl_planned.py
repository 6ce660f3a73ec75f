"""EasyDL jobs that plan for themselves: what is submitted, what their workers wrote down, and what Brain knows of them.

The workers are those of `saturating.py`: more than six of them are no faster, and every record that they train counts.
"""

import json
from pathlib import Path
from typing import Any

from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.protocol.brain import JobDetail
from tests.stories.easydl import JOBS

Data = dict[str, Any]
WORKER = Path(__file__).parents[1] / "runtime" / "easydl_trainer" / "saturating.py"


def planned_job(folder: Path, name: str = "j", **variables: str) -> Data:
    """No role says how many or how large. `folder` is for checkpoints, and for what the workers write down."""
    values = {
        "FOLDER": str(folder),
        "LEDGER": str(folder / "ledger"),
        "EDL_CHECKPOINT_DIR": str(folder / "checkpoints"),
    }
    values |= {"EDL_PLAN_SECONDS": "2", "EDL_USAGE_SECONDS": "1", "EDL_TASK_LEASE": "4", "OPENBLAS_NUM_THREADS": "1"}
    env = [{"name": variable, "value": value} for variable, value in (values | variables).items()]

    def role(*command: str) -> Data:
        container = {"name": "main", "image": "any", "command": list(command), "env": env}
        return {"restartCount": 20, "template": {"spec": {"containers": [container]}}}

    roles = {
        "trainer": role("edl", "trainer"),
        "parameterServer": role("edl", "pserver"),
        "worker": role("python", str(WORKER)),
    }
    metadata = {"name": name, "annotations": {"edl.dev/freezing-window": "0s"}}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": roles}


def hungry_job(folder: Path, image: str = "any", **variables: str) -> Data:
    """Its workers need more memory than its trainer's first plan gives them; no Brain is there to know better."""
    values = {"NEEDS": "150", "RECORDS": "200", "OWN": "0.02", "SHARED": "0.01"}
    values |= {"EDL_PLAN_SETTINGS": '{"cold_workers": 1, "cold_cpu": 0.5, "cold_memory": 128}'}
    values |= {"EDL_BRAIN_URL": "http://127.0.0.1:1", "EDL_BRAIN_TOKEN": "none"}
    job = planned_job(folder, "hungry", **(values | variables))
    for role in job["spec"].values():
        role["template"]["spec"]["containers"][0]["image"] = image
    return job


class Ledger:
    """No part of the product: the workers write it themselves."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ledger"

    def lines(self, kind: str) -> list[Data]:
        text = self._file.read_text() if self._file.exists() else ""
        whole = (json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n"))
        return [line for line in whole if line["kind"] == kind]

    @property
    def losses(self) -> list[float]:
        return [line["loss"] for line in self.lines("trained")]


def known(client: BrainClient, job: str) -> JobDetail | None:
    """What Brain knows of a job, None as long as it does not, or is away."""
    try:
        return client.job(job)
    except (BrainDownError, BrainRefusalError):
        return None
