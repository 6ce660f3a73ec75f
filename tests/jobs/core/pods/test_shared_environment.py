"""Variables that pods of a job share are in a Secret; each pod sees the same as if they were in the pod."""

from typing import Any

import pytest

from edl.jobs.core.grant import Grant
from edl.jobs.core.pods.environment import ServiceAccess
from edl.jobs.core.pods.pod_builder import PodSettings
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import Data, World, manifest

OWN = {"EDL_INDEX", "EDL_POD_NAME"}
DRAWN = {"RDZV_ENDPOINT", "JOB_ID", "SIZE", "MIN_SIZE", "MAX_SIZE"}
CREDENTIALS = {"EDL_JOB_TOKEN", "EDL_SERVICE_CA"}


def elastic_world(*, secrets: bool = True, **spec: Any) -> PytorchWorld:
    world = PytorchWorld(elastic(**spec))
    world.secrets = secrets
    world.give(3)
    return world


def training_world(*, secrets: bool = True, **spec: Any) -> World:
    world = World(manifest(**spec))
    world.settings = PodSettings(access=ServiceAccess("https://edl:8443"))
    world.secrets = secrets
    world.grant = Grant(2)
    world.live()
    return world


def container(world: World, pod: str) -> Data:
    found: Data = world.objects["Pod", pod]["spec"]["containers"][0]
    return found


def shared(world: World) -> list[str]:
    return [name for name in world.names("Secret") if not name.endswith("-token")]


@pytest.mark.parametrize(
    ("make", "pod", "more"),
    [
        (elastic_world, "j-worker-1", {"PET_LOCAL_ADDR", *DRAWN}),
        (training_world, "j-trainer-1", {"PADDLE_TRAINER_ID", "POD_IP"}),
    ],
)
def test_a_pod_says_by_itself_only_what_differs_and_is_told_all_of_it(make: Any, pod: str, more: set[str]) -> None:
    world, alone = make(), make(secrets=False)
    assert {one["name"] for one in container(world, pod)["env"]} == OWN | more
    variables, wanted = world.environment(pod), alone.environment(pod)
    assert {name for name in variables if variables[name] != wanted.get(name)} == CREDENTIALS
    assert set(variables) == set(wanted) | CREDENTIALS


def test_all_pods_take_it_from_one_secret_that_never_changes() -> None:
    world = elastic_world()
    [name] = world.names("Secret")
    secret = world.objects["Secret", name]
    assert secret["immutable"] is True
    assert [one["uid"] for one in secret["metadata"]["ownerReferences"]] == ["uid-1"]
    sources = [container(world, pod)["envFrom"] for pod in world.workers]
    assert sources == [[{"secretRef": {"name": name}}]] * 3


def test_a_job_that_was_edited_gets_another_secret_and_its_old_pods_keep_theirs() -> None:
    world = elastic_world()
    [old] = world.names("Secret")
    world.edit(lambda spec: spec.update(maxReplicas=9))
    world.give(4)
    assert len(world.names("Secret")) == 2
    assert world.environment("j-worker-0")["PET_NNODES"] == "2:5"
    assert world.environment("j-worker-3")["PET_NNODES"] == "2:9"
    world.edit(lambda spec: spec.update(maxReplicas=5))
    world.give(5)
    assert container(world, "j-worker-4")["envFrom"] == [{"secretRef": {"name": old}}], "what was said before is there"
    assert len(world.names("Secret")) == 2


def test_a_pod_that_others_came_before_says_so_itself() -> None:
    world = elastic_world()
    world.end("j-worker-0", 1)
    world.live()
    world.now += 60
    world.live()
    variables = {one["name"]: one.get("value") for one in container(world, "j-worker-0-1")["env"]}
    assert (variables["EDL_ATTEMPT"], world.environment("j-worker-0-1")["EDL_ATTEMPT"]) == ("1", "1")
    assert world.environment("j-worker-1")["EDL_ATTEMPT"] == "0"


def test_a_job_that_starts_anew_meets_elsewhere_and_needs_no_other_secret() -> None:
    world = elastic_world()
    world.give(0)
    world.give(2)
    assert world.environment(world.workers[0])["PET_RDZV_ID"] == "uid-1-1"
    assert len(world.names("Secret")) == 1


def test_what_the_template_sets_still_counts() -> None:
    env = [{"name": "PET_MAX_RESTARTS", "value": "0"}, {"name": "EDL_JOB_NAME", "value": "stolen"}]
    given = {"env": [*env, {"name": "MINE", "value": "$(EDL_JOB_NAME)"}], "envFrom": [{"configMapRef": {"name": "c"}}]}
    first = container(elastic_world(container=given), "j-worker-0")
    variables = {one["name"]: one.get("value") for one in first["env"]}
    assert (variables["PET_MAX_RESTARTS"], variables["MINE"]) == ("0", "$(EDL_JOB_NAME)")
    assert "EDL_JOB_NAME" not in variables, "what begins with EDL_ is ours"
    assert first["envFrom"][0] == {"configMapRef": {"name": "c"}}, "before ours, which counts more"


def test_what_has_a_meaning_in_a_pod_alone_stays_there() -> None:
    entry = {"entrypoint": "echo $(POD_IP)"}
    variables = {
        one["name"]: one.get("value") for one in container(training_world(trainer=entry), "j-trainer-0")["env"]
    }
    assert variables["ENTRY"] == training_world(trainer=entry, secrets=False).environment("j-trainer-0")["ENTRY"]


def test_a_job_of_trainers_alone_has_one_secret() -> None:
    world = training_world(master=None, pserver=None)
    assert world.names("Secret") == shared(world)
    assert not world.names("ReplicaSet")
