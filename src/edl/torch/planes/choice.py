"""Which device plane a worker can have, by where its parameters are; and gives it to a group if all members can.

Members say so in the round's store, before they build it and when they have it. One that cannot has all of them sum
through the host, in this round and, if it was tried and failed, in all that follow.
"""

import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch.distributed import PrefixStore

from edl.torch.planes import nccl
from edl.torch.planes.plane import Make, Plane, PlaneError
from edl.torch.refusal import NotElasticError
from edl.torch.rounds.group import Group, GroupBrokenError, SupersededError

log = logging.getLogger(__name__)

SETTING, HOST = "EDL_TORCH_DEVICE_PLANE", "gloo"
CONNECT = 60.0  # seconds that all members have to build a plane
LOOK = 0.02
BUILT, FAILED = "built", "plane/failed"
KINDS: dict[str, tuple[str, Callable[[torch.device], Make]]] = {"cuda": ("nccl", nccl.maker)}
"""By the type of a device: the name of its plane, and how to make one."""


@dataclass
class Planes:
    """What this worker gives to groups; without a name, nothing."""

    name: str = ""
    make: Make | None = None

    def equip(self, group: Group, superseded: Callable[[], bool]) -> Group:
        """The group, with a plane or without. All members of the round come to the same: by what they said there."""
        name = group.round.plane
        if not name or group.round.size == 1:
            return group
        try:
            if all(plane == name for plane in group.planes):
                self._equip(group, superseded)
            else:
                log.info("round %d sums on the host: not all members have %s", group.round.number, name)
        except (SupersededError, GroupBrokenError):
            group.drop()
            raise
        except RuntimeError as error:  # as torch's stores raise
            group.drop()
            raise GroupBrokenError(str(error)) from error
        return group

    def _equip(self, group: Group, superseded: Callable[[], bool]) -> None:
        assert self.make is not None
        plane, error = _connected(self.make, group, superseded)
        if plane is not None:
            group.equip(plane)  # so that the end of the group is its end
        failed = _failed(group, error, superseded)
        if failed:
            group.unequip()
            self.name = ""
            log.warning("gradients are summed on the host, not by %s: %s", group.round.plane, "; ".join(failed))


def choose(parameters: Iterable[torch.nn.Parameter], env: Mapping[str, str]) -> Planes:
    """For parameters that are all on one device, which has a plane."""
    setting = env.get(SETTING, "")
    if setting not in ("", HOST):
        raise NotElasticError(f"{SETTING} is {setting!r}: leave it out, or set it to {HOST!r} to sum on the host")
    devices = {parameter.device for parameter in parameters if parameter.requires_grad}
    kinds = {device.type for device in devices} & set(KINDS)
    if setting == HOST or not kinds:
        return Planes()
    if len(devices) > 1:
        log.warning("gradients are summed on the host: parameters are on %s", ", ".join(sorted(map(str, devices))))
        return Planes()
    name, maker = KINDS[kinds.pop()]
    try:
        return Planes(name, maker(devices.pop()))
    except PlaneError as error:
        log.warning("gradients are summed on the host: %s", error)
        return Planes()


def _connected(make: Make, group: Group, superseded: Callable[[], bool]) -> tuple[Plane | None, str]:
    """A plane, or why there is none."""
    store = group.store
    store.set_timeout(datetime.timedelta(seconds=CONNECT))  # of a key that a peer has not written yet
    attempt = Attempt(make, group)
    end = time.monotonic() + CONNECT
    try:
        while not attempt.over.wait(LOOK) and time.monotonic() < end and not superseded() and not store.check([FAILED]):
            pass
    finally:
        plane = attempt.end()
    return plane, attempt.error or ("" if plane else "it was not connected in time, or another worker had failed")


class Attempt:
    """To connect, in a thread: nothing bounds the time that a device takes."""

    def __init__(self, make: Make, group: Group) -> None:
        self.over, self.error = threading.Event(), ""
        self._make, self._group = make, group
        self._plane: Plane | None = None
        self._lock, self._left = threading.Lock(), False
        threading.Thread(target=self._run, name="edl-plane", daemon=True).start()

    def _run(self) -> None:
        round_ = self._group.round
        try:
            plane = self._make(PrefixStore(round_.plane, self._group.store), round_.rank, round_.size)
            with self._lock:
                self._plane, left = plane, self._left
            plane.abort() if left else plane.connect()
        except Exception as error:  # whatever it is, gradients can be summed without it
            self.error = f"{type(error).__name__}: {error}"
        self.over.set()

    def end(self) -> Plane | None:
        """The plane, if it is connected; else nothing is left of it."""
        with self._lock:
            self._left, good = True, self.over.is_set() and not self.error
            plane = self._plane
        if plane is not None and not good:
            plane.abort()
        return plane if good else None


def _failed(group: Group, error: str, superseded: Callable[[], bool]) -> list[str]:
    """What went wrong at any member; nobody goes on before all have said it."""
    store, size = group.store, group.round.size
    store.set(f"plane/{group.round.rank}", error or BUILT)
    if error:
        store.set(FAILED, error)  # others need not try any longer
    keys = [f"plane/{rank}" for rank in range(size)]
    while not store.check(keys):
        if superseded():
            raise SupersededError
        threading.Event().wait(LOOK)
    said = [word.decode() for word in store.multi_get(keys)]
    return [f"rank {rank}: {word}" for rank, word in enumerate(said) if word != BUILT]
