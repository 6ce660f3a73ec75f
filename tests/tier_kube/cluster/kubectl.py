"""kubectl as tests use it: what it prints, or an error with what it complained about."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.tier_kube.cluster.build import binary
from tests.tier_kube.cluster.reading import ReadError, reader_of

Manifest = dict[str, Any]


class KubectlError(Exception):
    """kubectl refused; the message is its own."""


@dataclass(frozen=True)
class Kubectl:
    """One cluster, seen through kubectl, in one namespace."""

    kubeconfig: Path
    program: str
    namespace: str = "default"

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 60) -> str:
        done = subprocess.run(
            [self.program, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}\n{done.stdout.strip()}".strip())
        return done.stdout.strip()

    def within(self, namespace: str) -> "Kubectl":
        return replace(self, namespace=namespace)

    def get(self, resource: str, name: str = "", *, labels: str = "") -> Manifest:
        """What `kubectl get -o json` prints; where it can be had for less, it is (`reading.py`)."""
        if reader := reader_of(self.kubeconfig):
            try:
                return reader.get(self.namespace, resource, name, labels=labels)
            except ReadError as error:
                raise KubectlError(str(error)) from error
        return self.printed(resource, name, labels=labels)

    def printed(self, resource: str, name: str = "", *, labels: str = "") -> Manifest:
        which = [name] if name else ["-l", labels] if labels else []
        found: Manifest = json.loads(self("get", resource, *which, "-o", "json"))
        return found

    def find(self, resource: str, name: str) -> Manifest | None:
        """None if it is not there."""
        return next((item for item in self.get(resource)["items"] if item["metadata"]["name"] == name), None)

    def apply(self, *manifests: Manifest) -> None:
        together = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self("apply", "--server-side", "-f", "-", stdin=json.dumps(together))

    def patch(self, target: str, change: Manifest, *, subresource: str = "", kind: str = "merge") -> None:
        """Change `target` (`KIND/NAME`) by a merge, strategic or JSON patch."""
        extra = [f"--subresource={subresource}"] if subresource else []
        self("patch", target, f"--type={kind}", f"--patch={json.dumps(change)}", *extra)


def kubectl_of(kubeconfig: Path) -> Kubectl:
    """kubectl for a cluster that is there: the machine's own if it has one, else ours."""
    return Kubectl(kubeconfig, shutil.which("kubectl") or str(binary("kubectl")))


def existing_kubeconfig() -> Path | None:
    """The cluster that the user wants used, if any."""
    chosen = os.environ.get("KUBECONFIG")
    return Path(chosen) if chosen else None


def eventually(holds: Callable[[], Any], *, within: float, what: str, pause: float = 0.25) -> Any:
    """Wait until a condition is truthy and return its value; the complaint says what did not come about and why."""
    deadline = time.monotonic() + within
    reason: object = None
    while time.monotonic() < deadline:
        try:
            if value := holds():
                return value
        except (KubectlError, KeyError, IndexError) as error:
            reason = error
        time.sleep(pause)
    raise AssertionError(f"{what} did not come about within {within:.0f} s" + (f": {reason}" if reason else ""))
