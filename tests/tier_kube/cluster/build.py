"""Builds the pinned binaries once: Go modules below `go/` pin the versions, the cache holds the binaries.

A binary appears under its final name only when it is complete, so an interrupted build resumes where it was; Go's own
build cache keeps what was compiled. Changing a module's files changes the directory of its binaries.
"""

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.tier_kube.cluster.cache import cache_root, fingerprint, locked

GO = Path(__file__).parent / "go"
REPORT_EVERY = 10.0


class BuildError(Exception):
    """A binary could not be built; the message says which and shows the end of the compiler's output."""


@dataclass(frozen=True)
class Tool:
    """A requirement of one of our Go modules, and the binaries that come out of it."""

    name: str
    module: str
    requirement: str
    binaries: dict[str, str]
    version_variables: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        return GO / self.module

    @property
    def version(self) -> str:
        required = (self.directory / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(self.requirement)} (v\S+)", required, re.MULTILINE)
        assert found, f"{self.requirement} is not required in go/{self.module}/go.mod"
        return found[1]

    @property
    def output(self) -> Path:
        return (
            cache_root()
            / "tools"
            / f"{self.name}-{self.version}-{fingerprint(self.directory, self.link_flags, *self.tags)}"
        )

    @property
    def link_flags(self) -> str:
        return " ".join(["-s -w", *(f"-X {variable}={self.version}" for variable in self.version_variables)])


_KUBERNETES = ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
_CLUSTER = "cluster"
_ETCD, _PEER = "go.etcd.io/etcd/server/v3", "github.com/kubeflow/training-operator"
_PROMETHEUS = "github.com/prometheus/prometheus"
TOOLS = (
    Tool("etcd", _CLUSTER, _ETCD, {"etcd": "./etcd"}),
    Tool(
        "kubernetes",
        _CLUSTER,
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES},
        ("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
    ),
    Tool("coredns", _CLUSTER, "github.com/coredns/coredns", {"coredns": "./coredns"}),
    Tool(
        "helm",
        _CLUSTER,
        "helm.sh/helm/v3",
        {"helm": "helm.sh/helm/v3/cmd/helm"},
        ("helm.sh/helm/v3/internal/version.version",),
    ),
    Tool("kwok", _CLUSTER, "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Tool("etcd-v2", "etcd-v2", _ETCD, {"etcd-v2": "."}),
    # Without the clouds that it could look for targets in, which are most of what it is built from.
    Tool("promtool", "promtool", _PROMETHEUS, {"promtool": f"{_PROMETHEUS}/cmd/promtool"}, tags=("remove_all_sd",)),
    Tool("training-operator", "training-operator", _PEER, {"training-operator": f"{_PEER}/cmd/training-operator.v1"}),
)
BINARIES = {binary: tool for tool in TOOLS for binary in tool.binaries}


def binary(name: str) -> Path:
    """The built binary; it is an error to ask before `build` made it."""
    path = BINARIES[name].output / name
    if not path.exists():
        raise BuildError(f"{name} is not built yet: run `python -m tests.tier_kube.cluster build`")
    return path


def sources(name: str) -> Path:
    """The sources of the module that a binary is built from, for the manifests that come with them."""
    tool = BINARIES[name]
    command = [_go(), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", tool.requirement]
    return Path(subprocess.run(command, cwd=tool.directory, capture_output=True, text=True, check=True).stdout.strip())


def build(*names: str) -> None:
    """Build those of the named binaries that the cache lacks."""
    missing = [name for name in names if not (BINARIES[name].output / name).exists()]
    if not missing:
        return
    _go()
    with locked(cache_root() / "tools" / ".lock"):
        for name in missing:
            target = BINARIES[name].output / name
            if not target.exists():
                _build_one(BINARIES[name], name, target)


def _go() -> str:
    """Go from the path, or from where its own installer puts it, which sudo's path leaves out."""
    if found := shutil.which("go") or shutil.which("/usr/local/go/bin/go"):
        return found
    raise BuildError("needs Go 1.21 or newer (it fetches the version that go.mod asks for): https://go.dev/doc/install")


def _build_one(tool: Tool, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    command = ["nice", _go(), "build", "-v", "-mod=readonly", "-trimpath", "-ldflags", tool.link_flags]
    command += ["-tags", ",".join(tool.tags)] if tool.tags else []
    started = time.monotonic()
    print(f"building {name} {tool.version}", flush=True)
    with subprocess.Popen(
        [*command, "-o", str(unfinished), tool.binaries[name]],
        cwd=tool.directory,
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output = _report(process, name, started)
    if process.returncode:
        raise BuildError(f"{name} {tool.version} does not build:\n" + "\n".join(output[-30:]))
    unfinished.rename(target)
    print(f"  built {name} in {time.monotonic() - started:.0f} s", flush=True)


def _report(process: subprocess.Popen[str], name: str, started: float) -> list[str]:
    """Follow `go build -v`, which prints a line per package, and say every few seconds how far it is."""
    assert process.stderr is not None
    lines: list[str] = []
    due = started + REPORT_EVERY
    for line in process.stderr:
        lines.append(line.rstrip())
        if time.monotonic() >= due:
            due = time.monotonic() + REPORT_EVERY
            print(f"  {name}: {len(lines)} packages, {time.monotonic() - started:.0f} s", flush=True)
    return lines
