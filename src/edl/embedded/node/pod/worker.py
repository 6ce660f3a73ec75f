"""Runs one pod on this node: acts on what `lifecycle` decides, and keeps the records that it decides on.

`sync` is level-triggered: it compares the pod as the API server has it with the containers as they are, starts and
stops containers, and says when to reconcile again. Slow work runs beside it and calls `changed` at its end.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from edl.api.kubernetes import timestamp
from edl.embedded.node.network.listeners import any_listens_on_localhost
from edl.embedded.node.pod import lifecycle
from edl.embedded.node.pod.admission import evicted
from edl.embedded.node.pod.container_run import ContainerRun
from edl.embedded.node.pod.directories import PodDirectories
from edl.embedded.node.pod.grace import LEAST_GRACE, termination_grace
from edl.embedded.node.pod.inputs import ConfigurationError
from edl.embedded.node.pod.launch import memory_limit
from edl.embedded.node.pod.lifecycle import ContainerPhase, ContainerRecord, PodActions, Termination
from edl.embedded.node.pod.preparation import Preparer
from edl.embedded.node.pod.recovery import LOST, restore
from edl.embedded.node.pod.status import PodState, Status
from edl.embedded.node.pod.termination_message import termination_message
from edl.embedded.node.pod.types import Action, Container, Pod, Probe
from edl.embedded.node.pod_context import PodContext
from edl.embedded.node.pressure import EVICT_SECONDS, condition_for
from edl.embedded.node.probes.health import Health
from edl.embedded.node.runtime import StartError
from edl.embedded.pod_requests import in_force, requests_of, resize_pending, with_resources
from edl.kube.rest.errors import KubeError

log = logging.getLogger(__name__)

_REFRESH_SECONDS = 60.0


class PodWorker:
    """`pod` is kept up to date by the node, with the resources that are in force; `resized` is the pod with those that
    it is to have, if others. `gone` says that the API server no longer has it."""

    def __init__(self, pod: Pod, context: PodContext, changed: Callable[[str], None]) -> None:
        self.resized: Pod | None = None
        self.resize_refusal: tuple[str, str] | None = None
        if resize_pending(pod):
            self.resized, pod = pod, in_force(pod)
        self.pod = pod
        self.uid = pod.metadata.uid
        self.gone = False
        self.directories = PodDirectories(context.root / pod.metadata.uid)
        self.address = context.host_ip if pod.spec.host_network else context.addresses.take()
        self.records = lifecycle.records_of(pod)
        self.reason = self.message = self.disrupted = ""
        self._context = context
        self._changed: Callable[[], None] = lambda: changed(self.uid)
        self._runs: dict[str, ContainerRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._short_since: float | None = None  # of what the machine lacks for it
        self._refreshed = self.seen_at = now = context.clock()
        self.known = {condition.type: condition for condition in pod.status.conditions}
        self.written: Status = {}
        self.started_at = timestamp.seconds(pod.status.start_time) if pod.status.start_time else now
        if restore(pod, self.records, now) and lifecycle.final_phase(
            list(self.records.values()), pod.spec.restart_policy
        ):
            self.reason, self.message, self.disrupted = "Terminated", LOST, LOST
        self.requests = requests_of(pod)
        self._preparer = Preparer(context, self.directories, self.address)

    @property
    def ending(self) -> bool:
        return self.gone or bool(self.reason) or self.pod.metadata.deletion_timestamp is not None

    @property
    def idle(self) -> bool:
        """Nothing of it runs and nothing is under way."""
        return not self._tasks and not any(record.active for record in self.records.values())

    def state(self) -> PodState:
        return PodState(
            pod_ip=self.address,
            host_ip=self._context.host_ip,
            started_at=self.started_at,
            now=self._context.clock(),
            reason=self.reason,
            message=self.message,
            disrupted=self.disrupted,
            resize_refusal=self.resize_refusal,
        )

    def refuse(self, reason: str, message: str) -> None:
        """End the pod as failed: it may not run here (any more)."""
        if not self.reason:
            self.reason, self.message = reason, message

    def sync(self) -> float | None:
        """Start and stop containers as needed; the seconds after which to reconcile again."""
        if self.pod.finished and not self._runs:
            return None
        now = self._context.clock()
        deadline = self._deadline(now)
        actions = self._next_actions(now)
        for name in actions.start:
            lifecycle.note_starting(self.records[name])
            self._spawn(self._start(name))
        for name in actions.stop:
            self._stop(name, termination_grace(self.pod, gone=self.gone, now=now))
        self._shorten_stops(now)
        times = [when for when in (actions.requeue_at, deadline, self._refresh(now)) if when is not None]
        return max(0.0, min(times) - now) if times else None

    def _next_actions(self, now: float) -> PodActions:
        return lifecycle.next_actions(
            list(self.records.values()), self.pod.spec.restart_policy, ending=self.ending, now=now
        )

    def _deadline(self, now: float) -> float | None:
        seconds = self.pod.spec.active_deadline_seconds
        if seconds is None or self.ending:
            return None
        if now >= self.started_at + seconds:
            self.refuse("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            return None
        return self.started_at + seconds

    def _refresh(self, now: float) -> float | None:
        """ConfigMaps and Secrets may change under a running pod: read them again from time to time."""
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
        """The API server has a newer version of the pod. Other resources wait for `resize`."""
        given = {one.name: one.resources for one in (*self.pod.spec.init_containers, *self.pod.spec.containers)}
        if all(given.get(one.name) == one.resources for one in (*pod.spec.init_containers, *pod.spec.containers)):
            self.pod, self.resized, self.resize_refusal = pod, None, None
        else:
            self.pod, self.resized = with_resources(pod, given), pod

    def resize(self, refusal: tuple[str, str] | None) -> None:
        """Put the new resources in force, or keep the reason and message for which they cannot be."""
        self.resize_refusal = refusal
        if refusal is not None or self.resized is None:
            return
        old, self.pod, self.resized = self.pod, self.resized, None
        self.requests = requests_of(self.pod)
        for container in self.pod.spec.containers:
            before = old.container(container.name)
            run = self._runs.get(container.name)
            if before is not None and run is not None and before.resources != container.resources:
                self._context.runtime.limit_memory(run.running.id, memory_limit(container))

    def write_hosts(self) -> None:
        self._preparer.write_hosts(self.pod)

    async def close(self, grace: float) -> None:
        """The node stops: end what is under way here, then the containers, politely if they are quick."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        runs = list(self._runs.values())
        for run in runs:
            run.stop_probes()
            self._context.runtime.stop(run.running.id, min(grace, self.pod.spec.termination_grace_period_seconds))
        if runs:
            await asyncio.wait([run.running.ended for run in runs], timeout=grace + 1)

    def release(self) -> None:
        """The pod is finished: what it held can be given to others. Its logs stay until `forget`."""
        self._context.devices.give_back(self.uid)

    async def forget(self) -> None:
        self.release()
        self._context.references.forget(self.uid)
        if not self.pod.spec.host_network:
            self._context.addresses.give_back(self.address)
        await asyncio.to_thread(self._clear_away)

    def _clear_away(self) -> None:
        role = self.pod.spec.containers[0].name
        record = self.records.get(role)
        if record is not None:
            with contextlib.suppress(OSError):
                self._context.keep_log(self.pod, self.directories.log(role, record.restarts))
        self.directories.remove()

    # Starting

    async def _start(self, name: str) -> None:
        container, record = self.pod.container(name), self.records[name]
        assert container is not None
        clock = self._context.clock
        try:
            launch = await self._preparer.launch(self.pod, container, record.next_run)
            running = await self._context.runtime.run(launch)
        except (ConfigurationError, KubeError, ValueError, OSError) as error:
            self._start_failed(record, "CreateContainerConfigError", str(error))
        except StartError as error:
            if error.stage == "start":
                now = clock()
                self._event("Warning", "Failed", f"Error: {error}")
                lifecycle.note_ended(
                    record, Termination(128, "StartError", str(error), now, now), self._context.backoff
                )
            else:
                self._start_failed(record, "CreateContainerError", str(error))
        except Exception as error:  # a bug of ours must not leave the container starting for ever
            log.exception("pod %s: container %s", self.pod.metadata.name, name)
            self._start_failed(record, "CreateContainerError", f"{type(error).__name__}: {error}")
        else:
            await self._started(container, record, ContainerRun(running, launch))

    def _start_failed(self, record: ContainerRecord, reason: str, message: str) -> None:
        self._note_pressure(message)
        if record.problem != (reason, message):
            self._event("Warning", "Failed", f"Error: {message}")
        lifecycle.note_problem(record, reason, message, self._context.clock())

    def _note_pressure(self, message: str) -> None:
        """A machine that lacks something is reported; a pod that never ran is given back if that lasts."""
        condition, now = condition_for(message), self._context.clock()
        if condition is None:
            return
        self._context.pressure.note(condition, now)
        self._short_since = now if self._short_since is None else self._short_since
        never_ran = not self._runs and all(record.ended is None for record in self.records.values())
        if never_ran and now - self._short_since >= EVICT_SECONDS:
            self.refuse(*evicted([condition]))

    async def _started(self, container: Container, record: ContainerRecord, run: ContainerRun) -> None:
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
        target = run.probe_target(container, self.address, self._context.runtime)
        run.health = Health(container, record, target, self._context.probe_runner, self)
        run.health.begin()

    # Results of probes

    def health_changed(self) -> None:
        self._changed()

    def not_ready(self, why: str) -> None:
        self._event("Warning", "Unhealthy", f"Readiness probe failed: {why}")

    def unhealthy(self, container: Container, which: str, why: str, probe: Probe) -> None:
        self._event("Warning", "Unhealthy", f"{which} probe failed: {why}")
        self._event("Normal", "Killing", f"Container {container.name} failed {which.lower()} probe, will be restarted")
        own = probe.termination_grace_period_seconds
        self._stop(container.name, self.pod.spec.termination_grace_period_seconds if own is None else own)

    async def _perform(self, action: Action, container: Container, run: ContainerRun, timeout: float) -> str:
        target = run.probe_target(container, self.address, self._context.runtime)
        return await self._context.probe_runner.perform(action, target, timeout)

    # Stopping

    def _stop(self, name: str, grace: float) -> None:
        """preStop, then SIGTERM, then SIGKILL, all within the grace (but for two seconds to die after a long hook).

        One that is still being prepared cannot be stopped yet: it is asked again once it has started.
        """
        run = self._runs.get(name)
        if run is None:
            return
        self.records[name].stopping = True
        run.stop_by = self._context.clock() + grace
        run.stop_probes()
        container = self.pod.container(name)
        hook = container.lifecycle.pre_stop if container is not None else None
        if container is not None and hook is not None and grace > 0:
            self._spawn(self._stop_politely(hook, container, run, grace))
        else:
            self._context.runtime.stop(run.running.id, grace)

    async def _stop_politely(self, hook: Action, container: Container, run: ContainerRun, grace: float) -> None:
        begin = self._context.clock()
        why = await self._perform(hook, container, run, timeout=grace)
        if why:
            self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {why}")
        left = grace - (self._context.clock() - begin)
        self._context.runtime.stop(run.running.id, max(left, LEAST_GRACE))

    def _shorten_stops(self, now: float) -> None:
        """A second, shorter deletion (kubectl delete --now) shortens what is under way."""
        if not self.ending:
            return
        grace = termination_grace(self.pod, gone=self.gone, now=now)
        for run in self._runs.values():
            if run.stop_by is not None and now + grace < run.stop_by - 1.5:
                run.stop_by = now + grace
                self._context.runtime.stop(run.running.id, grace)

    def _ended(self, container: Container, record: ContainerRecord, run: ContainerRun) -> None:
        run.stop_probes()
        self._runs.pop(container.name, None)
        outcome = run.running.ended.result()
        reason = "Completed" if outcome.code == 0 else "OOMKilled" if outcome.out_of_memory else "Error"
        said = termination_message(
            container, outcome.code, self.directories.termination_message(container.name), Path(run.launch.log)
        )
        ended = Termination(
            outcome.code, reason, said, outcome.started, outcome.finished, run.running.id, signal=outcome.signal
        )
        lifecycle.note_ended(record, ended, self._context.backoff)
        if record.delay > self._context.backoff.base and not self.ending:
            self._event("Warning", "BackOff", f"Back-off restarting failed container {container.name}")
        self._changed()

    def listening_address(self, port: int) -> str:
        """Where to reach a port of the pod: its own address, or the machine's if a process of the pod listens there."""
        roots = [run.running.pid for run in self._runs.values()]
        return "127.0.0.1" if any_listens_on_localhost(roots, port) else self.address

    # Tasks and events

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
        self._context.emit_event(self.pod, kind, reason, message)

    def running(self, container: str) -> ContainerRun | None:
        run = self._runs.get(container)
        return run if run is not None and self.records[container].state is ContainerPhase.RUNNING else None
