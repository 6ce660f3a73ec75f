"""Health of a running container (started, ready, alive) from its three probes, in Kubernetes' order."""

from collections.abc import Callable
from typing import Protocol

from edl.embedded.node.pod.lifecycle import ContainerRecord
from edl.embedded.node.pod.types import Container, Probe
from edl.embedded.node.probes.prober import Prober, ProbeRunner, ProbeTarget


class HealthListener(Protocol):
    """Acts on changes of health."""

    def health_changed(self) -> None: ...

    def not_ready(self, why: str) -> None: ...

    def unhealthy(self, container: Container, which: str, why: str, probe: Probe) -> None: ...


class Health:
    """Keeps `started` and `ready` of a container's record; liveness and readiness wait for the startup probe."""

    def __init__(
        self,
        container: Container,
        record: ContainerRecord,
        target: ProbeTarget,
        runner: ProbeRunner,
        listener: HealthListener,
    ) -> None:
        self._container = container
        self._record = record
        self._target = target
        self._runner = runner
        self._listener = listener
        self._probers: list[Prober] = []

    def begin(self) -> None:
        if self._container.startup_probe is not None:
            self._add(self._container.startup_probe, self._startup, initially=None)
        else:
            self._startup(True, "")

    def stop(self) -> None:
        for prober in self._probers:
            prober.stop()
        self._probers.clear()

    def _add(self, probe: Probe, report: Callable[[bool, str], None], *, initially: bool | None) -> None:
        self._probers.append(Prober(probe, self._target, self._runner, report, initially=initially))

    def _startup(self, passed: bool, why: str) -> None:
        container = self._container
        self.stop()
        if not passed and container.startup_probe is not None:
            self._listener.unhealthy(container, "Startup", why, container.startup_probe)
            return
        self._record.started = True
        self._record.ready = container.readiness_probe is None
        if container.liveness_probe is not None:
            self._add(container.liveness_probe, self._liveness, initially=True)
        if container.readiness_probe is not None:
            self._add(container.readiness_probe, self._readiness, initially=False)
        self._listener.health_changed()

    def _liveness(self, passed: bool, why: str) -> None:
        if not passed and self._container.liveness_probe is not None:
            self.stop()
            self._listener.unhealthy(self._container, "Liveness", why, self._container.liveness_probe)

    def _readiness(self, passed: bool, why: str) -> None:
        self._record.ready = passed
        if not passed:
            self._listener.not_ready(why)
        self._listener.health_changed()
