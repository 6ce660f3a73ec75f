"""Gradients that a device plane sums: exact through every change, and a step happens on all workers or on none.

The plane is a second group of gloo here, which behaves as NCCL does to those who use it (see `gloo_plane`).
"""

import contextlib
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed as dist

from edl.runtime.torch.warm_workers import Zygote
from edl.torch.planes import choice, nccl
from edl.torch.planes.plane import PlaneError
from edl.torch.refusal import NotElasticError
from tests.tier_frameworks.torchrun import gloo_plane
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.pods import Pods, job
from tests.tier_frameworks.torchrun.test_living_workers import aim, hit, trained_alone

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
SCRIPT = Path(gloo_plane.__file__)
BY_SOCKET, BY_GRACE, ON_HOST = "closed its connection", "do not answer: it is given up", "summed on the host"


@contextlib.contextmanager
def plane_job(folder: Path, zygote: Zygote, **settings: Any) -> Iterator[Pods]:
    with job(folder, zygote, script=SCRIPT, **settings) as made:
        (folder / "aim").mkdir()
        yield made


def logs(made: Pods) -> str:
    return "".join(log.read_text() for log in made.folder.glob("*.log"))


def on_device(made: Pods) -> set[int]:
    """Processes that have summed on the device."""
    return {int(file.stem) for file in (made.folder / "aim").glob("*.device")}


def test_members_join_leave_and_are_killed(tmp_path: Path, zygote: Zygote) -> None:
    with plane_job(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        made.start("c")
        made.until_steps(3)
        print(f"join: {made.pause(2, 3) * 1000:.0f} ms")
        made.terminate("b")
        made.until_steps(2)
        print(f"leave: {made.pause(3, 2) * 1000:.0f} ms")
        made.kill("c")
        made.until_steps(1)
        print(f"kill: {made.pause(2, 1) * 1000:.0f} ms")
        assert on_device(made) == made.pids()
        assert len(made.pids()) == 3
        assert BY_GRACE not in logs(made), "nobody waited for longer than it had to"
        made.assert_exact()


def test_the_result_is_that_of_one_worker_that_was_never_disturbed(tmp_path: Path, zygote: Zygote) -> None:
    with plane_job(tmp_path, zygote) as made:
        made.start("a", "b", epochs=6, pause=0.06, micro=20)
        made.until_steps(2)
        made.start("c", epochs=6, pause=0.06, micro=20)
        made.until_steps(3)
        made.kill("b")
        assert (made.code("a"), made.code("c")) == (0, 0)
        made.assert_exact()
        assert on_device(made) == made.pids()
        results = made.results()
    alone = trained_alone(6)
    for result in results:
        assert result["step"] == 6 * 11
        for name, value in alone.items():
            assert torch.allclose(result["model"][name], value, atol=2e-3), name


@pytest.mark.parametrize("place", ["device-sum", "device-summed", "summed"])
def test_a_worker_is_killed_around_its_sums(tmp_path: Path, zygote: Zygote, place: str) -> None:
    """While its peers wait for it on the device; when the device has the sum and nobody has the numbers; and when it
    has both. No device says that it is gone."""
    with plane_job(tmp_path, zygote) as made:
        made.start("a", "b", "c")
        made.until_steps(3)
        aim(made, place)
        victim = hit(made)
        made.kill(victim.pod)
        made.until_steps(2)
        assert (BY_SOCKET in logs(made)) == (place != "device-summed"), "the others wait for its next sum, or this one"
        assert BY_GRACE not in logs(made)
        made.assert_exact()


def test_a_wait_for_one_that_lives_and_hangs_ends_with_the_next_round(tmp_path: Path, zygote: Zygote) -> None:
    """No connection breaks: those who wait on the device are cut off, and it is not in the step."""
    with plane_job(tmp_path, zygote) as made:
        made.leader.edit(pods=frozenset("abc"))
        made.start("a", "b", "c")
        made.until_steps(3)
        aim(made, "device-sum")
        held = hit(made)
        made.leader.edit(pods=frozenset("abc") - {held.pod})
        made.until_steps(2)
        assert BY_GRACE in logs(made)
        made.assert_exact()


@pytest.mark.parametrize("unable", ["b", "c"])
def test_where_one_cannot_build_the_plane_all_sum_on_the_host(tmp_path: Path, zygote: Zygote, unable: str) -> None:
    """One of the first workers, or one that joins those who have a plane; and who comes later finds it so."""
    with plane_job(tmp_path, zygote) as made:
        for name in ("a", "b"):
            made.start(name, env={"PLANE_FAILS": "1"} if name == unable else {})
        made.until_steps(2)
        made.start("c", env={"PLANE_FAILS": "1"} if unable == "c" else {})
        made.until_steps(3)
        before = on_device(made)
        assert len(before) == (2 if unable == "c" else 0)
        assert logs(made).count("no way from device to device") >= 2, "all say why, and which rank"
        made.start("d")
        made.until_steps(4)
        assert on_device(made) == before
        made.assert_exact()


def test_one_that_is_told_to_use_the_host_has_all_use_it(tmp_path: Path, zygote: Zygote) -> None:
    with plane_job(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        first = on_device(made)
        made.start("c", env={choice.SETTING: choice.HOST})
        made.until_steps(3)
        made.kill("c")
        made.until_steps(2)
        assert on_device(made) == first == {pid for pod in "ab" for pid in made.pods[pod].pids()}
        made.assert_exact()


def parameter(device: str) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(1, device=device))


def test_a_plane_is_chosen_by_where_the_parameters_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choice.KINDS, "meta", ("meta-plane", gloo_plane.maker))
    assert choice.choose([parameter("cpu")], {}).name == ""
    assert choice.choose([parameter("meta")], {}).name == "meta-plane"
    assert choice.choose([parameter("meta")], {choice.SETTING: "gloo"}).name == ""
    assert choice.choose([parameter("meta"), parameter("cpu")], {}).name == "", "the host sums both"
    with pytest.raises(NotElasticError, match="set it to 'gloo'"):
        choice.choose([parameter("cpu")], {choice.SETTING: "mpi"})


def test_one_whose_nccl_is_too_old_has_no_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 21, 5))
    monkeypatch.setitem(choice.KINDS, "meta", ("nccl", nccl.maker))
    assert choice.choose([parameter("meta")], {}).name == ""
    with pytest.raises(PlaneError, match=r"NCCL is 2\.21\.5, it must be 2\.26 at least"):
        nccl.maker(torch.device("cuda"))


def test_this_torch_has_all_of_nccl_that_is_called() -> None:
    """As far as can be seen without a GPU: names, signatures and settings."""
    group, work = dist.ProcessGroupNCCL, dist.distributed_c10d.Work
    options = group.Options()
    options.config.blocking, options._timeout = 0, nccl.PATIENCE
    assert (options.config.blocking, options._timeout) == (0, nccl.PATIENCE)
    assert "store:" in group.__init__.__doc__
    assert "options: c10d::ProcessGroupNCCL::Options" in group.__init__.__doc__
    assert group.abort.__doc__.startswith("abort(self: ")
    assert "tensors: collections.abc.Sequence[torch.Tensor]" in group.allreduce.__doc__
    assert all(callable(getattr(work, name)) for name in ("is_completed", "synchronize"))
    assert list(inspect.signature(torch.cuda.Event.record).parameters) == ["self", "stream"]
    libraries = [Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"]
    libraries += (Path(torch.__file__).parents[1] / "nvidia" / "nccl" / "lib").glob("libnccl.so*")
    content = b"".join(library.read_bytes() for library in libraries)
    assert [name for name in nccl.SETTINGS if name.encode() not in content] == [], "a setting has another name now"


@pytest.mark.may_skip("there is a GPU")
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_torch_takes_what_the_plane_of_nccl_gives_it_and_misses_a_gpu() -> None:
    with pytest.raises(ValueError, match="no GPUs found"):
        nccl.NcclPlane(dist.HashStore(), 0, 1, torch.device("cuda", 0))


class Device:
    """What a sum and an abort of NCCL touch, in a test's hands. The test at the end has the real thing."""

    Options = dist.ProcessGroupNCCL.Options

    def __init__(self, *words: Any) -> None:
        self.done = self.completed = False
        self.aborted = threading.Semaphore(0)
        self.aborts = 0

    def allreduce(self, tensors: list[torch.Tensor]) -> "Device":
        return self

    def synchronize(self) -> None: ...

    def is_completed(self) -> bool:
        return self.completed

    def record(self, stream: Any) -> None: ...

    def query(self) -> bool:
        return self.done

    def abort(self) -> None:
        self.aborts += 1
        self.aborted.release()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(dist, "ProcessGroupNCCL", lambda *words: made)
    monkeypatch.setattr(dist.ProcessGroupNCCL, "Options", Device.Options, raising=False)
    monkeypatch.setattr(torch.cuda, "Event", lambda: made)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    return made


def test_a_sum_of_nccl_is_over_when_the_device_says_so(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = nccl.NcclPlane(None, 0, 2, torch.device("cuda", 0))
    sum_ = plane.all_reduce(torch.zeros(1))
    assert not sum_.over()
    device.completed = True
    assert not sum_.over(), "perhaps the event is about to come"
    monkeypatch.setattr(nccl, "GIVEN_UP", 0.0)
    with pytest.raises(PlaneError, match="given up"):
        until(plane.all_reduce(torch.zeros(1)).over, "an error", 10.0)
    device.done = True
    assert sum_.over()


def test_a_group_of_nccl_is_aborted_once(device: Device) -> None:
    plane = nccl.NcclPlane(None, 0, 2, torch.device("cuda", 0))
    plane.abort()
    plane.abort()
    assert device.aborted.acquire(timeout=10.0)
    assert device.aborts == 1
    with pytest.raises(PlaneError, match="aborted"):
        plane.all_reduce(torch.zeros(1))


@pytest.mark.may_skip("needs two GPUs, which the machines that this was written on do not have")
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs")
def test_nccl_sums_is_aborted_and_sums_again() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torch.multiprocessing.start_processes(two_communicators, (store.port,), nprocs=2, start_method="spawn")


def two_communicators(rank: int, port: int) -> None:
    """One after the other, the first of which waits for a sum that the other rank never makes."""
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    make = nccl.maker(device)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    for attempt in ("first", "second"):
        plane = make(dist.PrefixStore(attempt, store), rank, 2)
        plane.connect()
        tensor = torch.full((1 << 20,), rank + 1.0, device=device)
        until(plane.all_reduce(tensor).over, "a sum")
        assert tensor.unique().tolist() == [3.0]
        waiting = plane.all_reduce(tensor) if rank == 0 else None
        plane.abort()
        if waiting is not None:
            until(waiting.over, "the end of an aborted sum")
