"""Jobs of real processes that are killed without warning; what was acknowledged stays, and every update counts once."""

import contextlib
import random
import signal
import socket
import time
from pathlib import Path

import pytest

from edl.operator.job_service import RoleRecord
from edl.protocol.progress import Progress
from edl.runtime.parameters.messages import ServerState, Status
from edl.runtime.rpc import Client
from tests.runtime.harness import Job, job, until
from tests.runtime.ledger import check, check_trained_once

PASSES, CHUNKS = 2, 12
QUICK = {"EDL_CHECKPOINT_SECONDS": "0.3", "EDL_TASK_LEASE": "4", "PADDLE_INIT_NUM_PASSES": str(PASSES)}


def finish(made: Job, *trainers: int) -> None:
    assert [made.code(f"trainer-{index}") for index in trainers] == [0] * len(trainers)


def test_a_job_trains_every_task_once_per_pass_and_reports(tmp_path: Path) -> None:
    with job(tmp_path, **QUICK) as made:
        made.start_all()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)
        check_trained_once(made, passes=PASSES, chunks=CHUNKS)
        progress = until(lambda: _complete(made), "a report of the end")
        assert (progress.passes, progress.total, progress.loss) == (PASSES, PASSES * CHUNKS, 1.0)
        assert made.service.store.writes < 60, "writes are grouped"


def _complete(made: Job) -> Progress | None:
    reported = made.service.progress()
    told = reported is not None and reported[0].done == PASSES * CHUNKS and reported[0].loss is not None
    return reported[0] if told else None


def test_a_job_without_parameter_servers_uses_the_queue_alone(tmp_path: Path) -> None:
    with job(tmp_path, PARAMETERS="0", **QUICK) as made:
        made.start_all(pservers=0)
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)


@pytest.mark.case("acceptance-13")
def test_without_a_master_each_trainer_does_its_share_of_every_pass_though_it_is_killed(tmp_path: Path) -> None:
    with job(tmp_path, PARAMETERS="0", SECONDS="0.1", HOLD="9", **QUICK) as made:
        made.start_without_master(3)
        made.until_done(4)
        killed = made.running["trainer-1"].pid
        made.kill("trainer-1")
        before = {line["chunk"] for line in made.lines("acknowledged") if line["pod"] == "trainer-1"}
        made.start("trainer", 1, EDL_INDEX="1", TRAINERS="3")
        made.release()
        finish(made, 0, 1, 2)
        for index in range(3):
            mine = [line for line in made.lines("trained") if line["pod"] == f"trainer-{index}"]
            assert {line["chunk"] for line in mine} == set(range(index, CHUNKS, 3))
        again = [line["chunk"] for line in made.lines("trained") if line["pid"] != killed and not line["pass"]]
        assert not before & set(again), "what was acknowledged is not done again"
        done = {(line["pass"], line["chunk"]) for line in made.lines("acknowledged") if line["counted"]}
        missing = {(index, chunk) for index in range(PASSES) for chunk in range(CHUNKS)} - done
        assert missing <= {(line["pass"], line["chunk"]) for line in made.lines("trained") if line["pid"] == killed}
        assert len(done) == sum(line["counted"] for line in made.lines("acknowledged")), "done twice"


def test_without_a_master_a_second_process_of_a_slot_ends_the_first(tmp_path: Path) -> None:
    with job(tmp_path, PARAMETERS="0", HOLD="4", **QUICK) as made:
        made.start_without_master(1)
        made.until_done(2)
        first = made.running.pop("trainer-0")
        made.start("trainer", 0, EDL_INDEX="0", TRAINERS="1")
        try:
            assert first.wait(60) == 143
        finally:
            if first.poll() is None:
                first.kill()
                first.wait()
        made.release()
        finish(made, 0)


def test_without_a_master_parameters_are_refused_and_spare_trainers_have_nothing_to_do(tmp_path: Path) -> None:
    with job(tmp_path, **QUICK) as made:
        made.service.edit(roles={"trainer": RoleRecord(3)}, size=3)
        made.start("trainer", 0, EDL_INDEX="0", TRAINERS="3")
        made.start("trainer", 2, EDL_INDEX="2", TRAINERS="3", PARAMETERS="0", CHUNKS="2")
        assert made.code("trainer-0") == 1
        assert "give its spec a `master` role" in made.report()
        finish(made, 2)
        assert made.lines("trained") == []


def test_a_trainer_that_comes_after_the_end_has_nothing_to_do(tmp_path: Path) -> None:
    with job(tmp_path, **QUICK) as made:
        made.start_all(trainers=1)
        finish(made, 0)
        started = len(made.lines("started"))
        made.start("trainer", 1)
        finish(made, 1)
        assert len(made.lines("started")) == started


def test_killed_trainers_lose_nothing(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="8", **QUICK) as made:
        made.start_all(trainers=2)
        killed = set()
        for count in (2, 6):
            made.until_done(count)
            killed.add(made.running["trainer-0"].pid)
            made.kill("trainer-0")
            made.start("trainer", 0)
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS, killed=killed)


def test_a_killed_master_resumes_where_it_was(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="11", **{**QUICK, "EDL_TASK_LEASE": "30"}) as made:
        made.start_all()
        for count in (3, 10):
            made.until_done(count)
            made.kill("master-0")
            made.start("master")
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)
        check_trained_once(made, passes=PASSES, chunks=CHUNKS)
        assert made.stat().rollbacks == [(1, 0)], "the parameters were never lost, so nothing was rolled back"


def test_a_killed_parameter_server_takes_all_back_to_the_checkpoint(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="9", **QUICK) as made:
        made.start_all()
        for count, index in ((4, 1), (7, 0)):
            made.until_done(count)
            made.kill(f"pserver-{index}")
            made.start("pserver", index)
            made.until_era(3 - index)
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)
        assert [era for era, _ in made.stat().rollbacks] == [1, 2, 3]
        assert made.stat().rollbacks[-1][1] > 0


@pytest.mark.parametrize("seed", range(2))
def test_random_kills_of_everything(tmp_path: Path, seed: int) -> None:
    rng, killed = random.Random(seed), set()
    with job(tmp_path, SECONDS="0.1", **QUICK) as made:
        made.start_all(trainers=3)
        made.until_done(1)
        for _ in range(6):
            until(lambda: rng.random() < 0.1 or None, "moment")
            role, index = rng.choice([("master", 0), ("pserver", 0), ("pserver", 1), ("trainer", 0), ("trainer", 1)])
            pod = f"{role}-{index}"
            if role == "trainer" and made.running[pod].poll() is None:
                killed.add(made.running[pod].pid)
            made.kill(pod)
            made.start(role, index)
        finish(made, 0, 1, 2)
        check(made, passes=PASSES, chunks=CHUNKS, killed=killed)


def test_the_service_is_away_for_longer_than_a_lease_and_training_goes_on(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", CHUNKS="30", HOLD="29", **{**QUICK, "EDL_TASK_LEASE": "1"}) as made:
        made.start_all()
        made.until_done(3)
        made.service.down()
        acknowledged = made.settled("acknowledged")  # what was written before has been answered
        trained = len(made.lines("trained"))
        time.sleep(1.5)  # how long the service is away, not what is waited for
        until(lambda: len(made.lines("trained")) > min(trained, 28) or None, "tasks trained without the service")
        assert len(made.lines("acknowledged")) == acknowledged, "nothing is acknowledged that is not durable"
        made.service.up()
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=30)


def test_a_trainer_that_is_asked_to_go_finishes_its_task_and_exits_143(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.start_all()
        made.until_done(3)
        made.kill("trainer-0", signal.SIGTERM)
        made.release()
        assert made.code("trainer-0") == 143
        finish(made, 1)
        check(made, passes=PASSES, chunks=CHUNKS)
        check_trained_once(made, passes=PASSES, chunks=CHUNKS)
        left = [line for line in made.lines("started") if line["pod"] == "trainer-0"]
        done = [line for line in made.lines("acknowledged") if line["pod"] == "trainer-0" and line["counted"]]
        assert len(left) == len(done), "it left no task unfinished"


def test_a_trainer_whose_task_takes_too_long_gives_it_back(tmp_path: Path) -> None:
    with job(tmp_path, **{**QUICK, "EDL_TASK_LEASE": "60"}) as made:
        made.start_all(trainers=0)
        made.start("trainer", 0, SECONDS="600", STEPS="200", GRACE="0.5")
        until(lambda: made.lines("started") or None, "a task under way")
        made.kill("trainer-0", signal.SIGTERM)
        assert made.code("trainer-0") == 143
        made.start("trainer", 1)
        finish(made, 1)
        assert len(made.lines("end")) == 1


@pytest.mark.case("acceptance-19")
@pytest.mark.parametrize("end", [{"token": "of another job"}, {"phase": "failed"}], ids=["deleted", "failed"])
def test_a_trainer_of_a_job_that_is_over_goes_at_once(tmp_path: Path, end: dict[str, str]) -> None:
    """Master and servers go with it: there is nobody to hand the task in to, and its room is wanted."""
    with job(tmp_path, **QUICK) as made:
        made.start_all(trainers=0)
        made.start("trainer", 0, SECONDS="600", STEPS="200", GRACE="600")
        until(lambda: made.lines("started") or None, "a task under way")
        made.service.edit(**end)
        for pod in ("master-0", "pserver-0", "pserver-1"):
            made.kill(pod, signal.SIGTERM)
        made.kill("trainer-0", signal.SIGTERM)
        assert made.code("trainer-0") == 143


def test_a_pod_that_the_operator_wants_to_leave_gets_no_more_tasks(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.start_all()
        made.until_done(2)
        made.service.edit(leaving=("trainer-1",))
        until(lambda: len(made.lines("acknowledged")) >= 4 or None, "the view having changed meanwhile")
        made.release()
        assert made.code("trainer-1") == 143
        finish(made, 0)
        check(made, passes=PASSES, chunks=CHUNKS)


def test_a_stopped_trainer_loses_its_task_and_its_late_work_counts_once(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.2", **{**QUICK, "EDL_TASK_LEASE": "1"}) as made:
        made.start_all()
        made.until_done(2)
        made.kill("trainer-0", signal.SIGSTOP)
        until(lambda: made.stat().pass_index >= 1 or None, "the other trainer doing the lost task")
        made.kill("trainer-0", signal.SIGCONT)
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)


def test_a_second_master_fences_the_first(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.start_all()
        made.until_done(2)
        first = made.running.pop("master-0")
        made.start("master")
        try:
            assert first.wait(60) == 1
        finally:
            if first.poll() is None:
                first.kill()
                first.wait()
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)


def test_a_chunk_that_always_fails_fails_the_job_with_its_reason(tmp_path: Path) -> None:
    with job(tmp_path, POISON="3", **QUICK) as made:
        made.start_all(trainers=1)
        for _ in range(3):
            assert made.code("trainer-0") == 1
            made.start("trainer", 0)
        assert made.code("trainer-0") == 1
        failed = made.stat().failed
        assert "chunk 3 of pass 0 failed 3 times" in failed
        assert "ValueError: chunk 3 cannot be read" in failed


def test_another_number_of_chunks_is_refused(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.start_all(trainers=1)
        made.until_done(1)
        made.start("trainer", 1, CHUNKS="13")
        assert made.code("trainer-1") == 1
        assert "queue has 12 chunks, the script asks for 13" in made.report()
        made.release()
        finish(made, 0)


def test_parameters_without_servers_are_refused(tmp_path: Path) -> None:
    with job(tmp_path, **QUICK) as made:
        made.start_all(pservers=0, trainers=1)
        assert made.code("trainer-0") == 1
        assert "give its spec a `pserver` role" in made.report()


def test_a_damaged_checkpoint_is_given_up_for_the_one_before_it(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.3", HOLD="9", **QUICK) as made:
        made.start_all()
        until(lambda: made.stat().checkpoint >= 3 or None, "three checkpoints")
        made.kill("pserver-0")
        newest = until(lambda: None if not made.stat().gate else made.stat().checkpoint, "the loss being noticed")
        for file in (tmp_path / "checkpoints" / "u" / f"{newest:010d}").glob("shard-?-of-2"):
            file.write_bytes(file.read_bytes()[:-1])
        made.start("pserver", 0)
        made.release()
        finish(made, 0, 1)
        assert [restored for _, restored in made.stat().rollbacks][1:] == [newest, newest - 1]
        check(made, passes=PASSES, chunks=CHUNKS)


@pytest.mark.case("acceptance-23")
def test_the_loss_of_the_only_server_with_its_disk_fails_the_job_with_the_cause(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.own_disks = True
        made.start_all(pservers=1)
        made.until_done(3)
        made.kill("pserver-0")
        made.release()  # trainers are inside a task, at their next pull or push
        made.start("pserver", 0)
        assert [made.code(f"trainer-{index}") for index in (0, 1)] == [1, 1]
        assert "no older checkpoint is left" in made.stat().failed
        assert made.report().count("JobFailedError: checkpoint") == 2
        made.start("trainer", 0)
        assert made.code("trainer-0") == 1, "one that is started again hears it while it declares its model"


@pytest.mark.case("acceptance-23")
def test_a_server_lost_with_its_disk_resumes_from_the_copies_on_the_others(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="9", SIZE="200000", **QUICK) as made:
        made.own_disks = True
        made.start_all(pservers=3)
        for count, index in ((3, 1), (6, 2)):
            made.until_done(count)
            before = until(lambda: made.stat().checkpoint or None, "a checkpoint")
            made.kill(f"pserver-{index}")
            made.start("pserver", index)
            until(lambda index=index: made.stat().era == 1 + index or None, "the next era")  # type: ignore[misc]
            assert made.stat().rollbacks[-1][1] >= before
            restored = made.stat().rollbacks[-1][1]
            until(lambda restored=restored: made.stat().checkpoint > restored or None, "new copies")  # type: ignore[misc]
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=CHUNKS)


@pytest.mark.case("acceptance-23")
def test_neighbours_lost_together_with_their_disks_fail_the_job_with_the_cause(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.own_disks = True
        made.start_all(pservers=3)
        made.until_done(3)
        for index in (0, 1):
            made.kill(f"pserver-{index}")
        for index in (0, 1):
            made.start("pserver", index)
        made.release()
        assert [made.code(f"trainer-{index}") for index in (0, 1)] == [1, 1]
        assert "of shard 0 is on no parameter server that is left" in made.stat().failed


def test_servers_with_disks_of_their_own_are_added_and_removed(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.2", CHUNKS="90", SIZE="200000", **QUICK) as made:
        made.own_disks = True
        made.start_all(pservers=1)
        made.until_done(3)
        made.service.edit(roles={**made.service.record.roles, "pserver": RoleRecord(2)})
        made.start("pserver", 1)
        until(lambda: made.stat().era == 2 or None, "the move to two servers")
        made.service.edit(roles={**made.service.record.roles, "pserver": RoleRecord(1)})
        until(lambda: made.stat().era == 3 or None, "the move to one server")
        made.release()
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=90)


@pytest.mark.case("acceptance-18")
def test_a_server_answers_on_all_ports_of_the_job(tmp_path: Path) -> None:
    with job(tmp_path, **QUICK) as made, contextlib.ExitStack() as held:
        first = _free_ports(5)
        taken = held.enter_context(socket.create_server(("127.0.0.1", first + 4)))
        made.service.edit(roles={"master": RoleRecord(1), "pserver": RoleRecord(1)})
        ports = {"PADDLE_INIT_PORTS_NUM": "3", "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "2"}
        made.start("pserver", 0, PADDLE_INIT_PORT=str(first), **ports)
        for port in range(first, first + 4):
            assert until(lambda port=port: _state(port), f"an answer on port {port}").era == 0  # type: ignore[misc]
        assert taken.fileno() > 0, "a port that is taken keeps nobody from starting"


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the kernel gives to others."""
    for first in range(20000, 32000, count):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError("no ports are free")


def _state(port: int) -> ServerState | None:
    try:
        client = Client(f"127.0.0.1:{port}", "secret", timeout=5)
    except OSError:
        return None
    try:
        return client.call(Status(), ServerState)
    finally:
        client.close()


def test_a_server_in_a_new_pod_takes_the_slot_of_one_that_is_gone(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="5", **QUICK) as made:
        made.service.edit(
            roles={"master": RoleRecord(1), "pserver": RoleRecord(2)}, pods=frozenset({"pserver-5", "pserver-6"})
        )
        made.start("master")
        for index in (5, 6):
            made.start("pserver", index, EDL_INDEX="")
        made.start("trainer", 0)
        made.until_done(3)
        slots = made.service.store.kept["ns", "j", "u"].state.slots
        assert {slot.pod for name, slot in slots.items() if name.startswith("pserver/")} == {"pserver-5", "pserver-6"}
        made.kill("pserver-6")
        made.start("pserver", 7, EDL_INDEX="")
        made.service.edit(pods=frozenset({"pserver-5", "pserver-7"}))
        made.release()
        finish(made, 0)
        check(made, passes=PASSES, chunks=CHUNKS)
        after = made.service.store.kept["ns", "j", "u"].state.slots
        assert set(after) == set(slots), "it took a slot that was there"
        assert "pserver-7" in {slot.pod for slot in after.values()}


def test_in_lockstep_a_killed_trainer_holds_nobody_up(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", HOLD="8", SYNC="1", **QUICK) as made:
        made.start_all(trainers=3)
        made.until_done(4)
        made.kill("trainer-0")
        made.release()
        finish(made, 1, 2)
        tasks = PASSES * CHUNKS
        assert len({(line["pass"], line["chunk"]) for line in made.lines("trained")}) == tasks
        total = made.lines("end")[0]["total"][0]
        assert tasks * 2 / 3 <= total < tasks * 2, "steps of several trainers were made together"


def test_servers_are_added_and_removed_while_training(tmp_path: Path) -> None:
    with job(tmp_path, SECONDS="0.1", CHUNKS="30", SIZE="200000", **QUICK) as made:
        made.start_all(pservers=1)
        made.until_done(3)
        for count in (3, 2):
            made.service.edit(roles={**made.service.record.roles, "pserver": RoleRecord(count)})
            for index in range(count):
                if f"pserver-{index}" not in made.running:
                    made.start("pserver", index)
            until(lambda count=count: _shards(made) == count or None, f"{count} shards")  # type: ignore[misc]
        made.kill("pserver-2", signal.SIGTERM)
        assert made.code("pserver-2") == 143
        finish(made, 0, 1)
        check(made, passes=PASSES, chunks=30)


def _shards(made: Job) -> int:
    folders = sorted((made.folder / "checkpoints" / "u").iterdir())
    return max((int(file.name.rpartition("-")[2]) for file in folders[-1].glob("shard-0-of-?")), default=0)
