"""Reports the progress of a training script of any framework: one call per step, by one of its workers.

    from edl.progress import Progress

    progress = Progress(total=steps, done=first_step)
    for step in range(first_step, steps):
        ...
        if rank == 0:
            progress.add(samples=batch * world, loss=loss)

It is shown by `edl run`, `edl get` and `edl describe`, in status and in metrics, and the trainer of an EasyDL job plans
by it. Outside of a pod of ours nothing is reported. Scripts that take their data from `edl.trainer` need none of this
(their queue knows), nor do those of Hugging Face's Trainer; for Lightning there is `lightning_callback`.
"""

import atexit
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, SupportsFloat

from edl.runtime.environment import Environment
from edl.runtime.torch.service_call import ProgressCall

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What one report says: the fields of the job service's POST /progress, of which any may be left out."""

    throughput: float | None = None
    span: float | None = None
    loss: float | None = None
    workers: int | None = None
    epoch: float | None = None
    done: int | None = None
    total: int | None = None


Send = Callable[[Report], None]

FIRST = 1.0  # seconds after which the first report is sent: people watch the beginning
LAST = 3.0  # seconds that the end of a script waits at most for its last report


class Progress:
    """Reports the pace since the last report `every` seconds, in a thread: no call waits for the service.

    `total`: steps of the whole training; `done`: those that an earlier run of the script has done, from its checkpoint.
    """

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        total: int | None = None,
        done: int = 0,
        every: float | None = None,
        send: Send | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        env = os.environ if env is None else env
        here = Environment.read(env)
        group = env.get("GROUP_WORLD_SIZE", "")  # torchrun's word for how many pods train together
        self._workers = int(group) if group.isdecimal() else None
        self._every = here.usage_seconds if every is None else every
        self._send = send or _sender(here)
        self._clock, self._since, self._samples = clock, clock(), 0.0
        self._total, self._done, self._counts = total, done, total is not None
        self._epoch: float | None = None
        self._loss: SupportsFloat | None = None
        self._told = False
        self._under_way: threading.Thread | None = None
        if self._send is not None and self._counts:
            atexit.register(self.close)

    def add(
        self,
        *,
        samples: float = 0.0,
        loss: SupportsFloat | None = None,
        steps: int = 1,
        epoch: float | None = None,
    ) -> None:
        """What all workers together have trained since the last call. A loss may be a tensor: it is read only when a
        report is due."""
        self._samples += samples
        self._done += steps
        self._loss, self._epoch = (self._loss if loss is None else loss), (self._epoch if epoch is None else epoch)
        now = self._clock()
        if self._send is None or self._busy():
            return
        if now - self._since >= self._every:
            self._start(self._report(now, pace=True))
            self._since, self._samples = now, 0.0
        elif self._counts and not self._told and now - self._since >= FIRST:
            self._start(self._report(now, pace=False))

    def close(self) -> None:
        """Sends the last figures. Called when the script ends by itself; it waits 3 s at most."""
        if self._under_way is not None:
            self._under_way.join(LAST)
        if self._send is None or self._busy():
            return
        now = self._clock()
        self._start(self._report(now, pace=self._samples > 0 and now > self._since))
        self._since, self._samples = now, 0.0
        if self._under_way is not None:
            self._under_way.join(LAST)

    def _report(self, now: float, *, pace: bool) -> Report:
        return Report(
            throughput=self._samples / (now - self._since) if pace else None,
            span=now - self._since if pace else None,
            loss=_finite(self._loss),
            workers=self._workers,
            epoch=_finite(self._epoch),
            done=self._done if self._counts else None,
            total=self._total,
        )

    def _start(self, report: Report) -> None:
        assert self._send is not None
        self._told = True
        self._under_way = threading.Thread(target=self._send, args=(report,), name="progress", daemon=True)
        self._under_way.start()

    def _busy(self) -> bool:
        """A service that is slow to answer is not asked twice."""
        return self._under_way is not None and self._under_way.is_alive()


def lightning_callback(progress: Progress | None = None) -> Any:
    """A callback for `lightning.Trainer(callbacks=[...])` that reports steps, epochs and the loss. Needs Lightning."""
    try:
        from lightning.pytorch import Callback  # type: ignore[import-not-found]  # the user's
    except ImportError:
        from pytorch_lightning import Callback  # type: ignore[import-not-found]  # the same, by its older name

    class EdlProgress(Callback):  # type: ignore[misc]  # Lightning is not installed where types are checked
        """Rank 0 reports; `batch_size` of the data is not known to Lightning, so samples are not counted."""

        def __init__(self) -> None:
            self._progress = progress

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
            if not trainer.is_global_zero:
                return
            if self._progress is None:
                total = trainer.estimated_stepping_batches
                known = int(total) if math.isfinite(total) and total > 0 else None
                self._progress = Progress(total=known, done=trainer.global_step - 1)
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            self._progress.add(loss=loss, epoch=trainer.current_epoch)

        def on_train_end(self, trainer: Any, module: Any) -> None:
            if self._progress is not None:
                self._progress.close()

    return EdlProgress()


def _finite(value: SupportsFloat | None) -> float | None:
    """JSON has no way to write others."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _sender(here: Environment) -> Send | None:
    if not here.service_url:
        return None
    call = ProgressCall.of(here)

    def send(report: Report) -> None:
        try:
            call.send({name: value for name, value in asdict(report).items() if value is not None})
        except (OSError, ValueError) as error:
            log.info("progress was not reported: %s", error)

    return send
