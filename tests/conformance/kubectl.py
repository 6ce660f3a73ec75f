"""Runs kubectl against the server under test: its output, its errors and its exit code."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.tier_kube.cluster.cache import cache_root


def program() -> str | None:
    """The one that the kube tier has built, whose version is pinned, or kubectl on PATH."""
    built = sorted(cache_root().glob("tools/kubernetes-*/kubectl"))
    return str(built[-1]) if built else shutil.which("kubectl")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.lines]


@dataclass(frozen=True)
class Kubectl:
    """Calls in one namespace, with a home of their own so that no cache of another server is used."""

    binary: str
    kubeconfig: str
    home: Path
    namespace: str = "default"

    def within(self, namespace: str) -> "Kubectl":
        return replace(self, namespace=namespace)

    @property
    def base(self) -> list[str]:
        return [self.binary, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "KUBECACHEDIR": str(self.home / "cache")}

    def run(self, *arguments: str, stdin: str | Any = "", timeout: float = 60, **variables: str) -> Done:
        text = stdin if isinstance(stdin, str) else json.dumps(stdin)
        env = {**self.environment, **variables}
        done = subprocess.run(
            [*self.base, *arguments], input=text, capture_output=True, text=True, check=False, timeout=timeout, env=env
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: str | Any = "", timeout: float = 60, **variables: str) -> Done:
        """A call that must succeed."""
        done = self.run(*arguments, stdin=stdin, timeout=timeout, **variables)
        assert done.code == 0, f"kubectl {' '.join(arguments)}: {done.err}{done.out}"
        return done

    def get(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json").out)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A call that goes on (`logs -f`, `get -w`, `port-forward`); whoever starts it ends it."""
        return subprocess.Popen(
            [*self.base, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
