"""Workloads of the demonstration: two training jobs and an online service, as a user would write their manifests."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

import edl

Manifest = dict[str, Any]

NODES = 4
REGRESSION, CLICKS, SERVICE = "fit-a-line", "ctr", "shop"
SERVICE_PODS, SERVICE_CORES = 2, 2
LEDGER = "ledger.jsonl"
DATA = "/data"


class Pace(msgspec.Struct, frozen=True):
    """How long it takes: passes, tasks in a pass, seconds per task, and how long a scene is left to be seen.

    `cores` of each node are for trainers and services; masters and parameter servers live on three
    quarters of a core more, so that those of both jobs fit on one node without taking the place of a trainer.
    """

    cores: int = 3
    regression_passes: int = 9
    clicks_passes: int = 6
    chunks: int = 60
    seconds_per_task: float = 0.45
    scene: float = 3.5


SLOW = Pace()
QUICK = Pace(cores=2, regression_passes=8, clicks_passes=5, chunks=40, seconds_per_task=0.3, scene=0.2)


def examples() -> Path | None:
    """The example training scripts: inside the installed package, or beside `src` in a checkout."""
    package = Path(edl.__file__).parent
    places = (package / "examples", package.parents[1] / "examples")
    return next((place for place in places if (place / "ctr" / "train.py").exists()), None)


def jobs(pace: Pace, scripts: Path) -> tuple[Manifest, Manifest]:
    """Two steps per task; learning rates so that the losses fall for as long as the job lasts."""
    regression = _job(
        REGRESSION,
        scripts / "fit_a_line" / "train.py",
        sizes=(2, NODES * pace.cores),
        passes=pace.regression_passes,
        env=_environment(pace, batch=32, rate=5.0 / (2 * pace.chunks * pace.regression_passes)),
    )
    clicks = _job(
        CLICKS,
        scripts / "ctr" / "train.py",
        sizes=(2, 8),
        passes=pace.clicks_passes,
        env=_environment(pace, batch=256, rate=5.0 / (2 * pace.chunks * pace.clicks_passes)),
    )
    return regression, clicks


def _environment(pace: Pace, *, batch: int, rate: float) -> dict[str, Any]:
    return {
        "BATCH": batch,
        "SAMPLES": 2 * batch * pace.chunks,
        "CHUNKS": pace.chunks,
        "CATEGORIES": 200,
        "LEARNING_RATE": rate,
        "SECONDS_PER_TASK": pace.seconds_per_task,
        "LEDGER": f"{DATA}/{LEDGER}",
        "OPENBLAS_NUM_THREADS": 1,
    }


def _job(name: str, script: Path, *, sizes: tuple[int, int], passes: int, env: Mapping[str, Any]) -> Manifest:
    small = {"requests": {"cpu": "100m", "memory": "32Mi"}}
    variables = [{"name": key, "value": str(value)} for key, value in env.items()]
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "fault_tolerant": True,
            "freezing_window": "2s",
            "mountPath": DATA,
            "master": {"resources": small},
            "pserver": {"min-instance": 2, "resources": small},
            "trainer": {
                "entrypoint": f"exec python {shlex.quote(str(script))}",
                "passes": passes,
                "min-instance": sizes[0],
                "max-instance": sizes[1],
                "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
                "template": {"spec": {"containers": [{"name": "trainer", "env": variables}]}},
            },
        },
    }


def service() -> Manifest:
    """It needs whole nodes' worth of room, and it does not know of training jobs."""
    labels = {"app": SERVICE}
    container = {
        "name": "web",
        "image": "python",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"],
        "resources": {"requests": {"cpu": str(SERVICE_CORES), "memory": "64Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": SERVICE, "namespace": "default"},
        "spec": {
            "replicas": SERVICE_PODS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
