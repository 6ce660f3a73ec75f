"""Hundreds of nodes without kubelets: kwok answers for them. A pod that is bound runs, one that is deleted goes.

Only nodes that carry our label are kwok's: others of the same cluster are left to their kubelets.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tier_kube.cluster.build import binary, build, sources

LABEL = "edl.dev/kwok"
# `pod-complete` is left out: it would end the pods of Jobs the moment they start.
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
# Four at a time, kwok's default, would be what everything waits for on a busy machine.
_CONFIGURATION = """apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 16
  nodeLeaseParallelism: 16
"""


def node(name: str, resources: Mapping[str, str], **labels: str) -> dict[str, Any]:
    """The manifest of a node that kwok answers for. A node may take 110 pods unless `resources` say otherwise."""
    capacity = {"pods": "110", **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {LABEL: "true", "kubernetes.io/hostname": name, **labels}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


@contextmanager
def kwok(kubeconfig: Path, directory: Path, *, lease_seconds: int) -> Iterator[None]:
    """kwok while the block runs. Each node's lease is renewed four times in `lease_seconds`."""
    build("kwok")
    root = sources("kwok") / "kustomize" / "stage"
    stages = directory / "stages.yaml"
    stages.write_text("\n---\n".join([_CONFIGURATION, *((root / name).read_text() for name in _STAGES)]))
    command = [
        str(binary("kwok")),
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-label-selector={LABEL}=true",
        f"--node-lease-duration-seconds={lease_seconds}",
        f"--config={stages}",
    ]
    with (directory / "kwok.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.kill()
        process.wait()
