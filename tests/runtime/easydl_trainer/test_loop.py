"""The loop of a trainer with real processes, without an operator, while its Brain goes away and comes back."""

import time
from pathlib import Path

import pytest

from edl.brain.client import BrainClient
from edl.brain.tokens import mint
from tests.runtime.easydl_trainer.cluster import KEY, cluster
from tests.runtime.harness import until

WORKER = ["-m", "tests.runtime.easydl_trainer.saturating"]
QUICK = {"EDL_PLAN_SECONDS": "2", "EDL_TASK_LEASE": "2"}


@pytest.mark.timeout(200)
def test_a_brain_that_goes_away_and_comes_back_is_missed_by_nobody(tmp_path: Path) -> None:
    env = {**QUICK, "EDL_PLAN_SECONDS": "1", "OWN": "0.1", "SHARED": "0.02"}
    with cluster(tmp_path, env, worker=WORKER, room=3) as made:
        url = made.start_brain()
        made.start_trainer(EDL_BRAIN_URL=url, EDL_BRAIN_TOKEN=made.brain_token())
        until(lambda: made.state().get("samples") or None, "a first sample")
        made.kill("brain")
        gone = time.time()
        log = next(tmp_path.glob("j-trainer.*.log"))
        until(lambda: "the Brain is not followed" in log.read_text() or None, "a trainer that notices")
        count = len(made.state()["samples"])
        until(lambda: len(made.state()["samples"]) >= count + 2 or None, "training that goes on")
        made.start_brain(int(url.rpartition(":")[2]))
        until(lambda: "the Brain answers again" in log.read_text() or None, "a trainer that is heard again")
        client = BrainClient(url, mint(KEY, "*"), timeout=30)
        told = until(lambda: [s for s in client.job("ns/j").samples if s.time > gone] or None, "samples of meanwhile")
        assert len(told) >= 2, "what was measured while it was away was told when it came back"


SILENT = ["-c", "import time; time.sleep(600)"]


@pytest.mark.case("acceptance-20")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("deleted", [True, False])
def test_a_trainer_that_goes_with_its_job_tells_the_brain(tmp_path: Path, deleted: bool) -> None:
    with cluster(tmp_path, QUICK, worker=SILENT, room=1) as made:
        url = made.start_brain()
        made.start_trainer(EDL_BRAIN_URL=url, EDL_BRAIN_TOKEN=made.brain_token())
        client = BrainClient(url, mint(KEY, "*"), timeout=30)
        until(lambda: client.jobs(9) or None, "a job that the Brain knows")
        made.deleted = deleted
        made.ask_trainer_to_go()
        assert made.trainer_code() == 143
        assert client.jobs(9)[0].outcome == ("deleted" if deleted else ""), "a pod that is replaced is no end"


@pytest.mark.case("acceptance-20")
@pytest.mark.timeout(200)
def test_a_trainer_whose_workers_report_nothing_says_which_lines_to_add(tmp_path: Path) -> None:
    with cluster(tmp_path, QUICK | {"EDL_PLAN_SECONDS": "0.5"}, worker=SILENT, room=1) as made:
        made.start_trainer()
        log = next(tmp_path.glob("j-trainer.*.log"))
        until(lambda: "the workers report no progress" in log.read_text() or None, "a trainer that says so")
        text = log.read_text()
        lines = ["from edl.progress import Progress", "progress = Progress()", "progress.add(samples="]
        assert [text.count(line) for line in lines] == [1, 1, 1], "each of them, once"


CHIEF = ["-c", "import os, time; time.sleep(600 if os.environ['EDL_INDEX'] != '0' else 0)"]


@pytest.mark.case("acceptance-15")
@pytest.mark.timeout(200)
def test_the_end_of_the_chief_ends_a_job_with_parameter_servers(tmp_path: Path) -> None:
    """The others serve it for ever, as TensorFlow's do."""
    with cluster(tmp_path, QUICK, worker=CHIEF, room=2) as made:
        made.start_trainer()
        assert made.trainer_code() == 0
        assert [pod.index for pod in made.pods.values() if pod.role == "worker"] == [1]
