"""EasyDL jobs on real processes: the trainer first, pods by JobResource, updates that make before they break."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.main import main
from edl.kube.rest.errors import ApiError
from edl.operator.resources import JOB_RESOURCES, PODS
from tests.stories.backend import embedded
from tests.stories.easydl import JOBS, EasydlStory
from tests.stories.story import OBEDIENT, Story

SMALL = {"cpu": "250m", "memory": 64}
PRODUCTION = {"metadata": {"annotations": {"edl.dev/priority": "Production"}}}
EXAMPLES = Path(__file__).parents[2] / "examples"


def role(replicas: int, **resource: Any) -> dict[str, Any]:
    return {"replicas": replicas, "resource": resource or SMALL}


async def test_the_trainer_first_then_pods_by_the_plan_again_and_again(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit()
    found = await tale.until_running()
    assert found["trainer"] == ["j-trainer"]
    assert (await tale.until_phase("Running"))["reason"] == "the trainer runs; no JobResource names the job yet"
    await tale.plan(parameter_server=role(2), worker=role(2), evaluator=role(1))
    found = await tale.until_running(ps=2, worker=2, evaluator=1)
    assert found["ps"] == ["j-ps-0", "j-ps-1"]
    pod = await story.get(PODS, "j-worker-0")
    assert pod is not None
    assert pod["metadata"]["annotations"]["note"] == "kept"
    assert await tale.resources("j-ps-0") == {"cpu": "250m", "memory": "64Mi"}
    await tale.edit_plan(parameter_server=role(1), worker=role(3))
    await tale.until_running(ps=1, worker=3, evaluator=1)
    await tale.edit_plan(evaluator=role(0), worker=role(0))
    await tale.until_running(ps=1)
    await tale.edit_plan(worker=role(1))
    await tale.until_running(ps=1, worker=1)


async def test_the_samples_of_the_design(story: Story) -> None:
    """As they stand, all nine pods and both updates, but for their image, their command and their appetite."""
    tale = EasydlStory(story, "elastic-deepctr-job")
    job, plan = (
        yaml.safe_load((EXAMPLES / f"easydl-{kind}.yaml").read_text()) for kind in ("elasticjob", "jobresource")
    )
    for name in ("trainer", "worker", "parameterServer"):
        job["spec"].setdefault(name, {})["template"] = tale.template(OBEDIENT)
    for name in ("worker", "parameter_server", "evaluator"):
        assert plan["spec"][name]["resource"]["disk"] == 8192
        plan["spec"][name]["resource"] = {"cpu": "100m", "memory": 64, "disk": 64}
    for entry, cpu in zip(plan["spec"]["resource_updation"], ("200m", "400m"), strict=True):
        entry["resource"] = {"cpu": cpu, "memory": 128}
    await story.create(JOBS, job)
    await tale.until_running()
    await story.create(JOB_RESOURCES, plan)
    found = await tale.until_running(ps=4, worker=4, evaluator=1)
    assert found["ps"] == [f"elastic-deepctr-job-ps-{index}" for index in range(4)]
    given = [(await tale.resources(name))["cpu"] for name in found["ps"]]
    assert given == ["200m", "400m", "100m", "100m"]
    assert (await tale.resources(found["worker"][0]))["ephemeral-storage"] == "64Mi"


ESTIMATOR = """
import os, sys, time
assert sys.argv[1:] == ["--batch_size=32", "--training_steps=1000"], sys.argv
print("serves as", os.environ["EDL_ROLE"], flush=True)
while os.environ["EDL_ROLE"] != "worker" or not os.path.exists("enough"):
    time.sleep(0.1)
"""


@pytest.mark.case("acceptance-samples")
@pytest.mark.case("acceptance-9")
async def test_the_samples_of_the_design_as_they_stand_on_nodes_large_enough(tmp_path: Path) -> None:
    """With the resources that they name; what their image brings is in the working directory."""
    module = tmp_path / "image" / "model_zoo" / "iris" / "dnn_estimator.py"
    module.parent.mkdir(parents=True)
    module.write_text(ESTIMATOR)
    large = {"memory": "64Gi", "ephemeral-storage": "64Gi", "nvidia.com/gpu": "8"}
    async with embedded(tmp_path, nodes=2, cpu="40", working_dir=tmp_path / "image", capacity=large) as backend:
        story = await Story.begin(backend)
        tale = EasydlStory(story, "elastic-deepctr-job")
        for kind, resource in (("elasticjob", JOBS), ("jobresource", JOB_RESOURCES)):
            await story.create(resource, yaml.safe_load((EXAMPLES / f"easydl-{kind}.yaml").read_text()))
        found = await tale.until_running(ps=4, worker=4, evaluator=1)
        given = [await tale.resources(name) for name in (*found["ps"], *found["worker"], *found["evaluator"])]
        assert [(one["cpu"], one["memory"]) for one in given[:2]] == [("8", "8Gi"), ("16", "8Gi")]
        assert {(one["cpu"], one["memory"]) for one in given[2:]} == {("4", "4Gi")}
        assert {(one["ephemeral-storage"], one["nvidia.com/gpu"]) for one in given} == {("8Gi", "1")}
        (tmp_path / "image" / "enough").touch()
        status = await tale.until_phase("Succeeded")
        assert status["reason"] == "the trainer finished"


async def test_a_job_of_another_kind_gives_way_to_a_plan(story: Story) -> None:
    """For the minimum, all parameter servers and a worker, and by priority beyond it."""
    tale = EasydlStory(story)
    each = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    elastic = {"min-instance": 1, "max-instance": 20, "resources": each}
    await story.submit("big", script=OBEDIENT, trainer=elastic, master={}, freezing_window="0s")
    await story.until_running(7, name="big")
    await tale.submit()
    await tale.plan(parameter_server=role(2, cpu=1), worker=role(1, cpu=1))
    await story.until_running(2, "ps")
    await story.until_running(1, "worker")
    assert (await tale.until_granted(ps=2, worker=1))["code"]
    await story.until_running(4, name="big")
    await story.client.patch(JOBS, "j", PRODUCTION, namespace=story.namespace)
    await tale.edit_plan(worker=role(4, cpu=1))
    await story.until_running(4, "worker")
    await story.until_running(1, name="big")


async def test_resource_updation_replaces_two_servers_and_their_addresses_follow(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit(rigid=True)
    await tale.until_running()
    await tale.plan(parameter_server=role(2, cpu="250m"), worker=role(1))
    await tale.until_running(ps=2, worker=1)
    updates = [
        {"name": "j-ps-0", "resource": {"cpu": "500m"}},
        {"name": "j-ps-1", "resource": {"cpu": "300m"}},
        {"name": "j-ps-9", "resource": {"cpu": 1}},
    ]
    await tale.edit_plan(resource_updation=updates)
    reported = await tale.until_updates(ps_0="done", ps_1="done", ps_9="refused")
    assert reported["updates"][2]["reason"] == "there is no such slot: the plan gives ps 2 of them"
    found = await tale.until_running(ps=2, worker=1)
    assert found["ps"] == ["j-ps-0-1", "j-ps-1-1"]
    assert await tale.resources("j-ps-0-1") == {"cpu": "500m", "memory": "64Mi"}
    assert await tale.resources("j-ps-1-1") == {"cpu": "300m", "memory": "64Mi"}
    assert (await tale.leads_to("j-ps-0"), await tale.leads_to("j-ps-1")) == (["j-ps-0-1"], ["j-ps-1-1"])


async def test_running_pods_are_resized_in_place_where_that_suffices(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit()
    await tale.until_running()
    await tale.plan(parameter_server=role(2), worker=role(1))
    await tale.until_running(ps=2, worker=1)
    await tale.edit_plan(resource_updation=[{"name": "j-ps-0", "resource": {"cpu": "500m", "memory": 128}}])
    await tale.until_updates(ps_0="resized")
    assert await tale.resources("j-ps-0") == {"cpu": "500m", "memory": "128Mi"}
    await tale.edit_plan(resource_updation=None, parameter_server=role(2, cpu="300m", memory=64))

    async def alike() -> bool:
        return [await tale.resources(f"j-ps-{index}") for index in (0, 1)] == 2 * [{"cpu": "300m", "memory": "64Mi"}]

    await story.until(alike, "both servers have the resources of their role")
    assert (await tale.until_running(ps=2, worker=1))["ps"] == ["j-ps-0", "j-ps-1"]


@pytest.mark.case("acceptance-2")
async def test_a_resize_that_no_node_can_grant_changes_nothing_and_says_why(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit()
    await tale.until_running()
    await tale.plan(parameter_server=role(2), worker=role(1))
    await tale.until_running(ps=2, worker=1)
    await tale.edit_plan(resource_updation=[{"name": "j-ps-0", "resource": {"cpu": 1000}}])

    async def refused() -> bool:
        reported = (await tale.reported()).get("updates") or [{}]
        return "Insufficient cpu" in reported[0].get("reason", "")

    await story.until(refused, "the update says why it cannot be")
    old = await story.get(PODS, "j-ps-0")
    assert old is not None
    assert old["status"]["phase"] == "Running"
    assert old["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "250m"
    await tale.edit_plan(resource_updation=None, worker=role(3))
    await tale.until_running(ps=2, worker=3)


async def test_an_update_goes_on_over_the_death_of_the_operator(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit(rigid=True)
    await tale.until_running()
    await tale.plan(parameter_server=role(2, cpu="250m"), worker=role(2))
    await tale.until_running(ps=2, worker=2)
    updates = [{"name": f"j-ps-{index}", "resource": {"cpu": "500m"}} for index in (0, 1)]
    await tale.edit_plan(resource_updation=updates)
    await story.until(lambda: story.get(PODS, "j-ps-0-1"), "the update has begun")
    await story.backend.kill_operator()
    await tale.until_updates(ps_0="done", ps_1="done")
    found = await tale.until_running(ps=2, worker=2)
    assert (found["ps"], found["worker"]) == (["j-ps-0-1", "j-ps-1-1"], ["j-worker-0", "j-worker-1"])


async def test_an_update_that_finds_no_place_leaves_the_old_pod_alone(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit(rigid=True)
    await tale.until_running()
    await tale.plan(parameter_server=role(1, cpu="250m"), worker=role(1))
    await tale.until_running(ps=1, worker=1)
    await tale.edit_plan(resource_updation=[{"name": "j-ps-0", "resource": {"cpu": 64}}])

    async def said() -> bool:
        updates = (await tale.reported()).get("updates", ())
        return any("Unschedulable" in one.get("reason", "") for one in updates if one["state"] == "replacing")

    await story.until(said, "the update says that its pod cannot be placed")
    assert await story.pods("ps") == ["j-ps-0"]
    await tale.edit_plan(resource_updation=None)
    assert (await tale.until_running(ps=1, worker=1))["ps"] == ["j-ps-0"]


async def test_a_plan_larger_than_the_cluster_waits_and_says_what_is_missing(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit()
    await tale.until_running()
    await tale.plan(parameter_server=role(30, cpu=2), worker=role(1))
    reported = await tale.until_told("waits: needs")
    assert reported["granted"] == {"ps": 0, "worker": 0}
    await tale.until_running()
    await tale.edit_plan(parameter_server=role(1), worker=role(100, cpu=1))
    await tale.until_running(ps=1, worker=7)
    await tale.until_granted(ps=1, worker=7)


async def test_plans_without_a_job_two_plans_and_a_plan_that_goes(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.plan("first", parameter_server=role(1), worker=role(1))
    await tale.until_told("waits for ElasticJob j", "first")
    await tale.submit()
    await tale.until_running(ps=1, worker=1)
    await tale.plan("second", parameter_server=role(2), worker=role(2))
    await tale.until_told("refused: JobResource first is older and rules the job", "second")
    await story.delete(JOB_RESOURCES, "first")
    await tale.until_running(ps=2, worker=2)
    await story.delete(JOB_RESOURCES, "second")
    await story.delete(PODS, "j-worker-0", grace=0)
    found = await tale.until_running(ps=2, worker=2)
    assert found["worker"] == ["j-worker-0-1", "j-worker-1"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"selector": {"name": "j  // Job Name"}, "worker": {"replicas": 1}}, "spec.selector.name"),
        ({"selector": {"name": "j"}, "worker": {"replicas": -1}}, "spec.worker.replicas"),
        ({"selector": {"name": "j"}, "worker": {"replicas": 10**12}}, "spec.worker.replicas"),
        ({"selector": {"name": "j"}, "worker": {"replicas": 1, "resource": {"cpu": "-4"}}}, "spec.worker.resource.cpu"),
    ],
)
async def test_what_cannot_be_is_refused_at_once(story: Story, spec: Any, problem: str) -> None:
    with pytest.raises(ApiError) as refused:
        await EasydlStory(story).plan(**spec)
    assert refused.value.code in (400, 422)
    assert problem in refused.value.status.message


async def test_workers_fail_are_replaced_and_the_trainer_ends_the_job(story: Story, tmp_path: Path) -> None:
    tale, end = EasydlStory(story), tmp_path / "end"
    await tale.submit(
        trainer=f"until [ -e {end} ]; do sleep 0.1; done",
        worker="[ $EDL_ATTEMPT = 0 ] && exit 3; " + OBEDIENT,
    )
    await tale.plan(parameter_server=role(1), worker=role(2))

    async def replaced() -> bool:
        return await story.pods("worker", "j") == ["j-worker-0-1", "j-worker-1-1"]

    await story.until(replaced, "both workers, which may be seen running before they fail, have successors")
    found = await tale.until_running(ps=1, worker=2)
    assert found["worker"] == ["j-worker-0-1", "j-worker-1-1"]
    end.touch()
    status = await tale.until_phase("Succeeded")
    assert (status["reason"], status["replicaStatuses"]["worker"]["failed"]) == ("the trainer finished", 2)
    await story.until(lambda: _none(tale), "its other pods are gone")


@pytest.mark.case("acceptance-1")
async def test_a_job_whose_programs_fail_at_once_comes_to_rest(story: Story) -> None:
    """They die within milliseconds of each other, some of them when the job is over already."""
    tale, after = EasydlStory(story), itertools.count()
    await tale.submit(ps="exit 1", worker="exit 1")
    await tale.plan(parameter_server=role(2), worker=role(2))
    await tale.until_phase("Failed")

    async def versions() -> list[str]:
        found = [await story.get(JOBS, "j"), await story.get(JOB_RESOURCES, "r")]
        return [one["metadata"]["resourceVersion"] for one in found if one is not None]

    async def rests() -> bool:
        """For as long as another job takes from its beginning to its end."""
        before, other = await versions(), f"other-{next(after)}"
        await story.submit(other, script="true")
        await story.until_phase("succeeded", other)
        return await versions() == before

    await story.until(rests, "nothing is written for the job any more")


async def _none(tale: EasydlStory) -> bool:
    return not await tale.pods()


@pytest.mark.case("acceptance-7")
async def test_servers_that_a_running_job_asks_for_in_addition_come_together_or_not_at_all(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit()
    await tale.until_running()
    await tale.plan(parameter_server=role(1, cpu=2), worker=role(2))
    await tale.until_running(ps=1, worker=2)
    await tale.edit_plan(parameter_server=role(40, cpu=2))
    await tale.until_told("39 more ps wait: ")
    await tale.until_granted(ps=1, worker=2)
    await tale.edit_plan(worker=role(3))
    found = await tale.until_running(ps=1, worker=3)  # what runs goes on, and no pod waits
    assert found["ps"] == ["j-ps-0"]
    assert (await tale.until_phase("Running"))["scale"]["roles"]["ps"] == 1
    await tale.edit_plan(parameter_server=role(3, cpu=2))
    await tale.until_running(ps=3, worker=3)
    await tale.until_granted(ps=3, worker=3)


@pytest.mark.case("acceptance-12")
async def test_suspending_frees_every_pod(story: Story) -> None:
    tale = EasydlStory(story)
    await tale.submit()
    await tale.until_running()
    await tale.plan(parameter_server=role(1), worker=role(2))
    await tale.until_running(ps=1, worker=2)
    await story.client.patch(JOBS, "j", {"spec": {"suspend": True}}, namespace=story.namespace)
    await tale.until_running(trainer=0)
    await tale.edit_plan(parameter_server=role(1, cpu=60))
    await story.client.patch(JOBS, "j", {"spec": {"suspend": False}}, namespace=story.namespace)
    await story.until_running(1, "trainer")  # which may find a plan that fits
    await tale.edit_plan(parameter_server=role(1, cpu="250m"))
    await tale.until_running(ps=1, worker=2)


async def test_the_command_line_knows_such_jobs(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    tale = EasydlStory(story)

    async def edl(*words: str, code: int = 0) -> str:
        where = ["-n", story.namespace, "--kubeconfig", str(story.backend.kubeconfig)]
        capsys.readouterr()
        assert await asyncio.to_thread(main, [*words, *where]) == code
        said = capsys.readouterr()
        return " ".join((said.out + said.err).split())

    await tale.submit()
    await tale.plan(parameter_server=role(1), worker=role(2))
    await tale.until_running(ps=1, worker=2)

    async def listed() -> bool:
        return "easydljob/j running 2 2" in await edl("get")

    await story.until(listed, "edl get shows it as it is")
    reported = await edl("describe", "j")
    for words in ("it follows JobResource r", "j-worker-1", "worker 2 0 2", "Planned"):
        assert words in reported
    assert "kubectl scale jobresource" in await edl("scale", "j", "1", code=1)
    await edl("pause", "j")
    await edl("delete", "j")
    await story.until(lambda: _none(tale), "its pods are gone")
