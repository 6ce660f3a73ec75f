"""Every process of user code is told its share of the pod's CPU as its number of threads."""

from typing import Any

import pytest

from edl.jobs.core.grant import Grant
from edl.jobs.core.pods.threads import NAMES, thread_limits
from tests.jobs.easydl.world import EasydlWorld, easydl, role
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import Data, World, manifest

GPU = "nvidia.com/gpu"


def threads(**container: Any) -> list[int]:
    found = thread_limits({"spec": {"containers": [{"name": "c", **container}]}}, (GPU,))
    assert [one["name"] for one in found] == list(NAMES[: len(found)])
    return [int(one["value"]) for one in found]


def requests(cpu: object, **others: object) -> Data:
    return {"requests": {"cpu": cpu, **others}}


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"requests": {"cpu": "4"}}, 4),
        ({"requests": {"cpu": 4}}, 4),
        ({"requests": {"cpu": "3900m"}}, 3),
        ({"requests": {"cpu": "100m"}}, 1),
        ({"requests": {"cpu": "0"}}, 1),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "8"}}, 8),
        ({"limits": {"cpu": "2500m"}}, 2),
        ({"requests": {"cpu": "8"}, "limits": {GPU: "4"}}, 2),
        ({"requests": {"cpu": "2"}, "limits": {GPU: "4"}}, 1),
    ],
)
def test_threads_follow_the_cpu_of_a_pod_shared_by_its_processes(resources: Data, wanted: int) -> None:
    assert threads(resources=resources) == [wanted] * 3


@pytest.mark.parametrize("resources", [None, {}, {"requests": {"memory": "1Gi"}}, {"requests": None, "limits": None}])
def test_without_cpu_nothing_is_said(resources: Data | None) -> None:
    assert threads(resources=resources) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_template_that_says_it_is_left_alone(name: str) -> None:
    assert threads(resources=requests("4"), env=[{"name": name, "value": "7"}]) == []


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["torchrun", "--nproc-per-node=4", "t.py"], 2),
        (["torchrun", "--nproc_per_node", "2", "t.py"], 4),
        (["sh", "-c", "torchrun --nproc-per-node 8 t.py"], 1),
        (["torchrun", "--nproc-per-node=cpu", "t.py"], 1),
        (["torchrun", "--nproc-per-node=auto", "t.py"], 8),
        (["torchrun", "--nproc-per-node=0", "t.py"], 8),
        (["torchrun", "t.py", "--nproc-per-node"], 8),
    ],
)
def test_processes_that_a_flag_asks_for_share_the_cpu(command: list[str], wanted: int) -> None:
    assert threads(resources=requests("8"), command=command) == [wanted] * 3


def test_processes_that_a_variable_asks_for_share_the_cpu() -> None:
    assert threads(resources=requests("8"), env=[{"name": "PET_NPROC_PER_NODE", "value": "4"}]) == [2] * 3


# Every kind, and every role that runs user code.


def of_pod(world: World, name: str) -> str | None:
    variables = world.objects["Pod", name]["spec"]["containers"][0].get("env") or []
    return next((one["value"] for one in variables if one["name"] == "OMP_NUM_THREADS"), None)


def test_workers_of_pytorch_are_told() -> None:
    world = PytorchWorld(elastic(container={"resources": requests("2")}))
    world.give(2)
    assert [of_pod(world, name) for name in world.workers] == ["2", "2"]


def test_what_a_worker_is_told_is_in_the_shared_secret() -> None:
    world = PytorchWorld(elastic(container={"resources": requests("2")}))
    world.secrets = True
    world.give(2)
    secret = next(world.objects[key] for key in world.objects if key[0] == "Secret")
    assert secret["stringData"]["OMP_NUM_THREADS"] == "2"
    assert of_pod(world, world.workers[0]) is None


def test_trainers_are_told_and_edls_own_servers_are_not() -> None:
    cpu = {"resources": requests("2")}
    world = World(manifest(trainer=cpu, master=cpu, pserver={"command": ["serve"]} | cpu))
    world.grant = Grant(2)
    world.live()
    roles = {role: of_pod(world, world.pods(role)[0]) for role in ("trainer", "master", "pserver")}
    assert roles == {"trainer": "2", "master": None, "pserver": "2"}


def test_all_roles_of_an_easydl_job_are_told_but_edls_own_trainer() -> None:
    world = EasydlWorld(easydl())
    world.planned(2, worker=role(2, cpu=4), parameter_server=role(1, cpu=2), evaluator=role(1, cpu=3))
    reported = {name: of_pod(world, name) for name in world.pods("worker") + world.pods("ps") + world.pods("trainer")}
    assert reported == {"j-worker-0": "4", "j-worker-1": "4", "j-ps-0": "2", "j-trainer": None}


def test_a_trainer_of_the_users_own_is_told() -> None:
    container = {"name": "main", "image": "i", "resources": requests("2")}
    world = EasydlWorld(easydl(trainer={"template": {"spec": {"containers": [container]}}}))
    world.live()
    assert of_pod(world, "j-trainer") == "2"
