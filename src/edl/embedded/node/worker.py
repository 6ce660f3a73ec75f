"""One pod on this node: carries out what `lifecycle` decides, and keeps the records that it decides on.

`sync` is level-triggered: it looks at the pod as the API server has it and at the containers as they are, starts and
stops what should be, and says when to look again. What takes time runs beside it and calls `changed` at its end.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from edl.api import timestamp
from edl.embedded.node import lifecycle
from edl.embedded.node.admission import requests_of
from edl.embedded.node.equipment import Equipment
from edl.embedded.node.facts import ConfigurationError
from edl.embedded.node.health import Health
from edl.embedded.node.launching import memory_limit
from edl.embedded.node.lifecycle import Ended, Plan, Record, State
from edl.embedded.node.listeners import listens_on_localhost
from edl.embedded.node.messages import termination_message
from edl.embedded.node.places import PodPlaces
from edl.embedded.node.pod import Action, Container, Pod, Probe
from edl.embedded.node.preparing import Preparer
from edl.embedded.node.recovery import LOST, restore
from edl.embedded.node.run import Run
from edl.embedded.node.runtime import StartError
from edl.embedded.node.status import Situation, Status
from edl.embedded.node.supervisor import processes
from edl.kube.errors import KubeError

log = logging.getLogger(__name__)

_LEAST_GRACE = 2.0
_REFRESH_SECONDS = 60.0


class PodWorker:
    """`pod` is kept up to date by the node; `gone` says that the API server no longer has it."""

    def __init__(self, pod: Pod, equipment: Equipment, changed: Callable[[str], None]) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.gone = False
        self.places = PodPlaces(equipment.root / pod.metadata.uid)
        self.address = equipment.host_ip if pod.spec.host_network else equipment.addresses.take()
        self.records = lifecycle.records_of(pod)
        self.reason = self.message = self.disrupted = ""
        self._equipment = equipment
        self._changed: Callable[[], None] = lambda: changed(self.uid)
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshed = self.seen_at = now = equipment.clock()
        self.known = {condition.type: condition for condition in pod.status.conditions}
        self.written: Status = {}
        self.started_at = timestamp.seconds(pod.status.start_time) if pod.status.start_time else now
        if restore(pod, self.records, now) and lifecycle.verdict_of(
            list(self.records.values()), pod.spec.restart_policy
        ):
            self.reason, self.message, self.disrupted = "Terminated", LOST, LOST
        self.requests = requests_of(pod)
        self._preparer = Preparer(equipment, self.places, self.address)

    @property
    def ending(self) -> bool:
        return self.gone or bool(self.reason) or self.pod.metadata.deletion_timestamp is not None

    @property
    def quiet(self) -> bool:
        """Nothing of it runs and nothing is under way."""
        return not self._tasks and not any(record.active for record in self.records.values())

    def situation(self) -> Situation:
        return Situation(
            pod_ip=self.address,
            host_ip=self._equipment.host_ip,
            started_at=self.started_at,
            now=self._equipment.clock(),
            reason=self.reason,
            message=self.message,
            disrupted=self.disrupted,
        )

    def refuse(self, reason: str, message: str) -> None:
        """End the pod as failed: it may not run here (any more)."""
        if not self.reason:
            self.reason, self.message = reason, message

    def sync(self) -> float | None:
        """Start and stop what should be; the seconds after which to look again."""
        if self.pod.finished and not self._runs:
            return None
        now = self._equipment.clock()
        deadline = self._deadline(now)
        plan = self._plan(now)
        for name in plan.start:
            lifecycle.note_starting(self.records[name])
            self._spawn(self._start(name))
        for name in plan.stop:
            self._stop(name, self._grace(now))
        self._hasten(now)
        times = [when for when in (plan.wake, deadline, self._refresh(now)) if when is not None]
        return max(0.0, min(times) - now) if times else None

    def _plan(self, now: float) -> Plan:
        return lifecycle.plan(list(self.records.values()), self.pod.spec.restart_policy, ending=self.ending, now=now)

    def _deadline(self, now: float) -> float | None:
        seconds = self.pod.spec.active_deadline_seconds
        if seconds is None or self.ending:
            return None
        if now >= self.started_at + seconds:
            self.refuse("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            return None
        return self.started_at + seconds

    def _refresh(self, now: float) -> float | None:
        """ConfigMaps and Secrets may change under a running pod: look at them now and then."""
        if self.ending or not any(volume.files is not None for volume in self.pod.spec.volumes):
            return None
        if now - self._refreshed >= _REFRESH_SECONDS:
            self._refreshed = now
            self._spawn(self._refresh_volumes())
        return self._refreshed + _REFRESH_SECONDS

    async def _refresh_volumes(self) -> None:
        with contextlib.suppress(ConfigurationError, KubeError, OSError):
            await self._preparer.refresh(self.pod)

    def update(self, pod: Pod) -> None:
        """The API server has a newer version of the pod."""
        old, self.pod = self.pod, pod
        if old.spec is not pod.spec:
            self.requests = requests_of(pod)
        for container in pod.spec.containers:
            before = old.container(container.name)
            run = self._runs.get(container.name)
            if before is not None and run is not None and before.resources != container.resources:
                self._equipment.runtime.limit_memory(run.running.id, memory_limit(container))

    def write_hosts(self) -> None:
        self._preparer.write_hosts(self.pod)

    async def close(self, grace: float) -> None:
        """The node stops: end what is under way here, then the containers, politely if they are quick."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        runs = list(self._runs.values())
        for run in runs:
            run.leave_alone()
            self._equipment.runtime.stop(run.running.id, min(grace, self.pod.spec.termination_grace_period_seconds))
        if runs:
            await asyncio.wait([run.running.ended for run in runs], timeout=grace + 1)

    def release(self) -> None:
        """The pod is finished: what it held can be given to others. Its logs stay until `forget`."""
        self._equipment.devices.give_back(self.uid)

    async def forget(self) -> None:
        self.release()
        self._equipment.gatherer.forget(self.uid)
        if not self.pod.spec.host_network:
            self._equipment.addresses.give_back(self.address)
        await asyncio.to_thread(self.places.remove)

    # Starting

    async def _start(self, name: str) -> None:
        container, record = self.pod.container(name), self.records[name]
        assert container is not None
        clock = self._equipment.clock
        try:
            launch = await self._preparer.launch(self.pod, container, record.next_run)
            running = await self._equipment.runtime.run(launch)
        except (ConfigurationError, KubeError, ValueError, OSError) as error:
            self._cannot(record, "CreateContainerConfigError", str(error))
        except StartError as error:
            if error.stage == "start":
                now = clock()
                self._event("Warning", "Failed", f"Error: {error}")
                lifecycle.note_ended(record, Ended(128, "StartError", str(error), now, now), self._equipment.backoff)
            else:
                self._cannot(record, "CreateContainerError", str(error))
        except Exception as error:  # a bug of ours must not leave the container starting for ever
            log.exception("pod %s: container %s", self.pod.metadata.name, name)
            self._cannot(record, "CreateContainerError", f"{type(error).__name__}: {error}")
        else:
            await self._begun(container, record, Run(running, launch))

    def _cannot(self, record: Record, reason: str, message: str) -> None:
        if record.problem != (reason, message):
            self._event("Warning", "Failed", f"Error: {message}")
        lifecycle.note_problem(record, reason, message, self._equipment.clock())

    async def _begun(self, container: Container, record: Record, run: Run) -> None:
        self._runs[container.name] = run
        run.running.ended.add_done_callback(lambda _: self._ended(container, record, run))
        self._event("Normal", "Started", f"Started container {container.name}")  # also one that has ended already
        hook = container.lifecycle.post_start
        if hook is not None:
            why = await self._perform(hook, container, run, timeout=self.pod.spec.termination_grace_period_seconds)
            if why:
                self._event("Warning", "FailedPostStartHook", f"PostStartHook failed: {why}")
                self._stop(container.name, 0)
        if run.running.ended.done():
            return
        lifecycle.note_running(record, run.running.id, run.running.started)
        subject = run.subject(container, self.address, self._equipment.runtime)
        run.health = Health(container, record, subject, self._equipment.surveyor, self)
        run.health.begin()

    # What the probes say

    def health_changed(self) -> None:
        self._changed()

    def not_ready(self, why: str) -> None:
        self._event("Warning", "Unhealthy", f"Readiness probe failed: {why}")

    def unhealthy(self, container: Container, which: str, why: str, probe: Probe) -> None:
        self._event("Warning", "Unhealthy", f"{which} probe failed: {why}")
        self._event("Normal", "Killing", f"Container {container.name} failed {which.lower()} probe, will be restarted")
        own = probe.termination_grace_period_seconds
        self._stop(container.name, self.pod.spec.termination_grace_period_seconds if own is None else own)

    async def _perform(self, action: Action, container: Container, run: Run, timeout: float) -> str:
        subject = run.subject(container, self.address, self._equipment.runtime)
        return await self._equipment.surveyor.perform(action, subject, timeout)

    # Stopping

    def _stop(self, name: str, grace: float) -> None:
        """preStop, then SIGTERM, then SIGKILL, all within the grace (but for two seconds to die after a long hook).

        One that is still being prepared cannot be stopped yet: it is asked again once it has started.
        """
        run = self._runs.get(name)
        if run is None:
            return
        self.records[name].stopping = True
        run.stop_by = self._equipment.clock() + grace
        run.leave_alone()
        container = self.pod.container(name)
        hook = container.lifecycle.pre_stop if container is not None else None
        if container is not None and hook is not None and grace > 0:
            self._spawn(self._stop_politely(hook, container, run, grace))
        else:
            self._equipment.runtime.stop(run.running.id, grace)

    async def _stop_politely(self, hook: Action, container: Container, run: Run, grace: float) -> None:
        begin = self._equipment.clock()
        why = await self._perform(hook, container, run, timeout=grace)
        if why:
            self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {why}")
        left = grace - (self._equipment.clock() - begin)
        self._equipment.runtime.stop(run.running.id, max(left, _LEAST_GRACE))

    def _grace(self, now: float) -> float:
        """How long the containers may take from now."""
        if self.gone:
            return min(_LEAST_GRACE, self.pod.spec.termination_grace_period_seconds)
        meta = self.pod.metadata
        if meta.deletion_timestamp is not None:
            # The timestamp is when the grace is over; clocks may differ, so never longer than the grace itself.
            whole = float(meta.deletion_grace_period_seconds or 0)
            return max(0.0, min(whole, timestamp.seconds(meta.deletion_timestamp) + 1 - now))
        return self.pod.spec.termination_grace_period_seconds

    def _hasten(self, now: float) -> None:
        """A second, shorter deletion (kubectl delete --now) shortens what is under way."""
        if not self.ending:
            return
        grace = self._grace(now)
        for run in self._runs.values():
            if run.stop_by is not None and now + grace < run.stop_by - 1.5:
                run.stop_by = now + grace
                self._equipment.runtime.stop(run.running.id, grace)

    def _ended(self, container: Container, record: Record, run: Run) -> None:
        run.leave_alone()
        self._runs.pop(container.name, None)
        outcome = run.running.ended.result()
        reason = "Completed" if outcome.code == 0 else "OOMKilled" if outcome.out_of_memory else "Error"
        said = termination_message(
            container, outcome.code, self.places.termination_message(container.name), Path(run.launch.log)
        )
        ended = Ended(
            outcome.code, reason, said, outcome.started, outcome.finished, run.running.id, signal=outcome.signal
        )
        lifecycle.note_ended(record, ended, self._equipment.backoff)
        if record.delay > self._equipment.backoff.base and not self.ending:
            self._event("Warning", "BackOff", f"Back-off restarting failed container {container.name}")
        self._changed()

    def listening_address(self, port: int) -> str:
        """Where to reach a port of the pod: its own address, or the machine's if a process of the pod listens there."""
        pids = processes.descendants(processes.table(), [run.running.pid for run in self._runs.values()])
        listens = any(listens_on_localhost(pid, port) for pid in pids)
        return "127.0.0.1" if listens else self.address

    # Plumbing

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("pod %s: %s", self.pod.metadata.name, task.exception(), exc_info=task.exception())
        self._changed()

    def _event(self, kind: str, reason: str, message: str) -> None:
        self._equipment.announce(self.pod, kind, reason, message)

    def running(self, container: str) -> Run | None:
        run = self._runs.get(container)
        return run if run is not None and self.records[container].state is State.RUNNING else None
