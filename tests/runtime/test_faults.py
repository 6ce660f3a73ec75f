"""Jobs of real processes that are killed without warning; what was acknowledged stays, and every update counts once."""

import random
import signal
import time
from pathlib import Path

import pytest

from edl.operator.job_service import Progress, RoleRecord

from .harness import Job, job, until
from .ledger import check, check_trained_once

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
            until(lambda index=index: made.stat().era == 3 - index or None, "the next era")  # type: ignore[misc]
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
        time.sleep(0.3)  # what was written before has been answered
        trained, acknowledged = len(made.lines("trained")), len(made.lines("acknowledged"))
        time.sleep(1.5)
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
