"""Processes that are known by pid and start time, so that only those that were started here are ever signalled.

The record of each lies in a file, written as the process starts: another run can stop what a killed one left behind.
"""

import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
# Kubernetes is written in Go, and a test cluster has memory to spare but no CPU: garbage is looked for less often.
_SETTINGS = {"GOGC": "400"}


@dataclass(frozen=True)
class Identity:
    """A process as opposed to a pid: pids are used again, a pid with its start time within one boot is not."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """Who has this pid now; None when nobody has, or only a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, *fields = stat[stat.rindex(")") + 2 :].split()
        return None if state in "ZX" else cls(pid, int(fields[18]), _BOOT.read_text().strip())

    def alive(self) -> bool:
        return Identity.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Signal this very process or nobody: the descriptor pins the pid while its owner is checked."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive():
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


def kill(victims: list[Identity], timeout: float = 10.0) -> None:
    """SIGKILL and wait until they are gone."""
    for victim in victims:
        victim.signal(signal.SIGKILL)
    deadline = time.monotonic() + timeout
    while remaining := [victim for victim in victims if victim.alive()]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"still there {timeout:.0f} s after SIGKILL: {[victim.pid for victim in remaining]}")
        time.sleep(0.02)


class StartError(Exception):
    """A part of the cluster did not start; the message says which and shows the end of its log."""


class Processes:
    """The recorded processes of one cluster: records below `records`, output below `logs`, both one file per name."""

    def __init__(self, *, records: Path, logs: Path) -> None:
        self._records = records
        self._logs = logs
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[list[str], Path | None]] = {}

    def start(self, name: str, argv: list[str], *, netns: Path | None = None) -> None:
        """Start a command, in a network namespace if one is given (`ip netns exec` would hide the cgroups)."""
        for directory in (self._records, self._logs):
            directory.mkdir(parents=True, exist_ok=True)
        self._commands[name] = argv, netns
        prefix = ["nsenter", f"--net={netns}", "--"] if netns else []
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                prefix + argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **_SETTINGS},
            )
        self._children[name] = child
        if identity := Identity.of(child.pid):
            self._record(name).write_text(json.dumps(asdict(identity)))

    def crash(self, name: str) -> None:
        """kill -9, and started again at once, as by an init system."""
        argv, netns = self._commands[name]
        self.kill(name)
        self.start(name, argv, netns=netns)

    def restart_ended(self) -> list[str]:
        """Whatever ended by itself is started again, as by an init system; their names."""
        ended = [name for name, child in self._children.items() if child.poll() is not None]
        for name in ended:
            self.crash(name)
        return ended

    def recorded(self, name: str) -> Identity | None:
        try:
            return Identity(**json.loads(self._record(name).read_text()))
        except (FileNotFoundError, ValueError):
            return None

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._records.glob("*.json"))

    def alive(self, name: str) -> bool:
        identity = self.recorded(name)
        return identity is not None and identity.alive()

    def signal(self, name: str, number: signal.Signals) -> None:
        if identity := self.recorded(name):
            identity.signal(number)

    def kill(self, *names: str) -> None:
        kill([identity for name in names if (identity := self.recorded(name))])
        for name in names:
            if child := self._children.pop(name, None):
                child.wait()
            self._record(name).unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def tail(self, name: str, lines: int = 20) -> str:
        """The end of a process's output, for messages about its failure."""
        text = self.log(name).read_text(errors="replace") if self.log(name).exists() else ""
        return f"--- end of {name}'s log\n" + "\n".join(text.splitlines()[-lines:])

    def _record(self, name: str) -> Path:
        return self._records / f"{name}.json"
