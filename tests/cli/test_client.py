"""Jobs from Python: what `import edl` costs and offers, and a job from its start to its end."""

import asyncio
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import edl
from edl.cli.connect.jobs import resource_of
from edl.client.functions import call_arguments, function_script
from edl.jobs.registry import PYTORCH_JOB
from tests.cli.conftest import Cluster

ELASTIC_JOBS = resource_of(PYTORCH_JOB)


def test_import_is_light() -> None:
    program = (
        "import sys; before = set(sys.modules); import edl\n"
        "more = set(sys.modules) - before - {'edl'}\n"
        "sys.exit(f'imported: {more}' if more else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_no_public_function_has_the_name_of_a_subpackage() -> None:
    inside = {module.name for module in pkgutil.iter_modules(edl.__path__)}
    assert not inside & set(dir(edl))
    with pytest.raises(AttributeError):
        _ = edl.nothing  # type: ignore[attr-defined]  # that is the point


@pytest.fixture
def here(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.chdir(tmp_path)
    yield {"kubeconfig": str(cluster.config), "image": "any", "plain": True}
    cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


def test_a_script_from_its_start_to_its_end(here: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nprint('step 1/2 loss 0.5', sys.argv[1], os.environ['A'])\nprint('step 2/2 loss 0.25')\n"
    )
    job = edl.run(str(script), ["x"], env={"A": "b"}, **here)
    assert job.wait(60).status()["phase"] == "succeeded"
    assert list(job.logs()) == ["step 1/2 loss 0.5 x b", "step 2/2 loss 0.25"]
    assert list(job.logs(follow=True, tail=1)) == ["step 2/2 loss 0.25"]
    metrics = job.metrics()
    assert [list(metrics[name]) for name in ("step", "loss")] == [[1, 2], [0.5, 0.25]]
    found = edl.get("train", kubeconfig=here["kubeconfig"])
    assert (found.name, found.kind) == ("train", "ElasticJob")
    assert "phase succeeded" in repr(found)
    assert "<td>succeeded</td>" in found._repr_html_()
    assert [one.name for one in edl.list_jobs(kubeconfig=here["kubeconfig"])] == ["train"]
    job.delete()
    with pytest.raises(edl.JobError, match="there is no job"):
        job.status()


def test_a_job_is_changed_while_it_runs_and_in_a_loop_that_runs(here: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(300)\n")

    async def notebook() -> None:
        job = edl.run(script, min=1, max=2, cpu="10m", **here)
        with pytest.raises(TimeoutError, match="has not ended"):
            job.wait(0.1)
        with pytest.raises(edl.JobError, match="is outside 1"):
            job.scale(9)
        job.pause()
        job.resume()
        job.scale(1)

    asyncio.run(notebook())


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"script": "absent.py", "min": 0}, "--min 0"),
        ({"script": "a.py", "name": "Capitals"}, "metadata.name"),
        ({"script": "a.py", "args": {"x": 1}}, "a list of words"),
        ({"script": len}, "no function with a name"),
    ],
)
def test_what_cannot_be_is_said(here: dict[str, Any], given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(edl.JobError, match=complaint):
        edl.run(**{**here, **given})


def alone(steps: int, *, rate: float = 1.0) -> None:
    import math

    total = sum(math.sqrt(step) for step in range(steps))
    print("total", round(total * rate, 1))


def test_a_function_runs_on_a_cluster_that_has_no_file_of_ours(
    here: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDL_HOME", str(tmp_path / "home"))
    job = edl.run(alone, {"steps": 3, "rate": 2.0}, **here)
    assert job.wait(60).status()["phase"] == "succeeded"
    assert list(job.logs()) == ["total 4.8"]


def test_a_function_becomes_a_script(tmp_path: Path) -> None:
    file = function_script(alone, tmp_path)
    words = call_arguments({"steps": 3, "rate": 2.0})
    ran = subprocess.run([sys.executable, str(file), *words], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "total 4.8\n"
    assert function_script(alone, tmp_path) == file
    assert call_arguments([3]) == ['{"args": [3], "kwargs": {}}']


def closure() -> Callable[[], None]:
    secret = 3

    def inner() -> None:
        print(secret)

    return inner


def uses_globals() -> None:
    print(Path("x"), sys.argv)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (closure(), "inner uses secret of the function around it"),
        (uses_globals, "uses_globals uses Path, sys from outside"),
        (lambda: None, "no function with a name"),
        (len, "no function with a name"),
        (print, "no function with a name"),
    ],
)
def test_a_function_that_does_not_stand_alone_is_refused(
    function: Callable[..., Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(edl.JobError, match=complaint):
        function_script(function, tmp_path)


def test_arguments_that_are_no_json_are_refused() -> None:
    with pytest.raises(edl.JobError, match="sent as JSON"):
        call_arguments([object()])
