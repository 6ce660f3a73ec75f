"""A refused edit changes nothing, for as long as it is refused, whoever leads: what is in force is in the status.

Every world here forgets everything but its objects between two reconciles, as a new leader does.
"""

from collections.abc import Callable
from typing import Any

import pytest

from edl.jobs.core.grant import Grant
from edl.jobs.core.in_force import LONGEST
from edl.jobs.in_force import check_job
from edl.jobs.views import view
from tests.jobs.easydl.world import EasydlWorld, easydl, role
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.training.test_reconcile import running
from tests.jobs.world import Data, World, manifest

Edit = Callable[[Data], Any]


def refusal(world: World) -> str:
    valid = world.condition("Valid")
    assert valid is not None
    assert (valid["status"], valid["reason"]) == ("False", "EditRefused")
    message: str = valid["message"]
    return message


def environment(world: World, pod: str) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in world.objects["Pod", pod]["spec"]["containers"][0]["env"]}


EDITS: dict[str, Edit] = {
    "spec.pserver": lambda spec: spec.pop("pserver"),
    "spec.master": lambda spec: spec.pop("master"),
    "spec.etcd": lambda spec: spec.pop("etcd"),
    "spec.mountPath": lambda spec: spec.update(mountPath="/other"),
    "spec.port": lambda spec: spec.update(port=9000),
    "spec.trainer.passes": lambda spec: spec.update(passes=7),
    "spec.etcd.replicas": lambda spec: spec.update(etcd={"replicas": 3}),
}


@pytest.mark.case("acceptance-4")
@pytest.mark.parametrize("field", EDITS)
def test_what_a_training_job_was_refused_changes_nothing(field: str) -> None:
    world = running(etcd={}, mountPath="/data", pserver={"command": ["serve"]})
    assert world.job is not None
    before = {key: body for key, body in world.objects.items() if key[0] != "Pod"}
    sizes = view(check_job(world.job).object)  # type: ignore[arg-type]  # it is there
    variables = environment(world, "j-trainer-0")
    world.edit(EDITS[field])
    world.live()
    assert field in refusal(world)
    assert {key: body for key, body in world.objects.items() if key[0] != "Pod"} == before
    found = check_job(world.job).object
    assert found is not None
    assert (view(found).roles, view(found).fixed) == (sizes.roles, sizes.fixed), "the scheduler sees what is in force"
    world.end("j-trainer-0", 1)
    world.live()
    assert environment(world, "j-trainer-0-1") | {"EDL_ATTEMPT": "0", "EDL_POD_NAME": ""} == variables | {
        "EDL_POD_NAME": ""
    }


@pytest.mark.case("acceptance-4")
def test_after_a_refused_edit_everything_that_is_made_anew_is_as_the_job_began() -> None:
    world = running(mountPath="/data", pserver={"command": ["serve"]})
    world.edit(lambda spec: spec.update(mountPath="/other"))
    world.edit(lambda spec: spec.pop("pserver"))
    world.live()
    began = {key: body["spec"]["template"] for key, body in world.objects.items() if "template" in body["spec"]}
    for key in began:
        del world.objects[key]
    for name in world.names("Pod"):
        world.lose(name)
    world.live()
    again = {key: body["spec"]["template"] for key, body in world.objects.items() if "template" in body["spec"]}
    assert again == began
    [mount] = world.objects["Pod", world.pods()[0]]["spec"]["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/data"
    assert "spec.mountPath" in refusal(world)
    assert "spec.pserver" in refusal(world)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda spec: spec["trainer"].update(replicas=3), id="replicas"),
        pytest.param(lambda spec: spec["trainer"].update({"min-instance": 3, "max-instance": 3}), id="min-instance"),
        pytest.param(lambda spec: spec["trainer"].update({"min-instance": 1, "replicas": 1}), id="both"),
    ],
)
def test_the_size_of_a_job_without_a_master_cannot_be_edited(edit: Edit) -> None:
    """Each of its trainers has a fixed share of the data by its index, out of their number."""
    world = running(2, master=None)
    assert world.job is not None
    world.edit(edit)
    world.live()
    assert "out of 2" in refusal(world)
    found = check_job(world.job).object
    assert found is not None
    assert (view(found).min, view(found).max) == (2, 2)
    world.end("j-trainer-1", 1)
    world.live()
    assert environment(world, "j-trainer-1-1")["TRAINERS"] == "2"


def test_a_larger_maximum_of_a_job_without_a_master_is_no_change() -> None:
    world = running(2, master=None)
    world.edit(lambda spec: spec["trainer"].update({"max-instance": 9}))
    world.live()
    assert world.condition("Valid")["status"] == "True"  # type: ignore[index]  # it is there


def test_what_is_honoured_goes_on_being_honoured_beside_what_is_refused() -> None:
    world = running(mountPath="/data")
    world.edit(lambda spec: spec.update(mountPath="/other", image="new:2"))
    world.live()
    world.end("j-trainer-0", 1)
    world.live()
    container = world.objects["Pod", "j-trainer-0-1"]["spec"]["containers"][0]
    assert (container["image"], container["volumeMounts"][0]["mountPath"]) == ("new:2", "/data")
    world.edit(lambda spec: spec.update(mountPath="/data"))
    world.live()
    assert world.condition("Valid")["status"] == "True"  # type: ignore[index]  # it is there


def training_world() -> World:
    return running()


def pytorch_world() -> World:
    world = PytorchWorld(elastic(rdzvEndpoint="etcd:2379"))
    world.give(3)
    return world


def easydl_world() -> World:
    world = EasydlWorld(easydl(distributionStrategy="parameter_server"))
    world.planned(1, parameter_server=role(1), worker=role(1))
    return world


WORLDS = {"training": training_world, "pytorch": pytorch_world, "easydl": easydl_world}
BAD = [{"name": "x", "image": "i", "resources": {"limits": {"cpu": "lots"}}}]
TEMPLATES: dict[str, Callable[[Data], Data]] = {
    "training": lambda spec: spec["trainer"].setdefault("template", {"spec": {}})["spec"],
    "pytorch": lambda spec: spec["replicaSpecs"]["Worker"]["template"]["spec"],
    "easydl": lambda spec: spec["worker"]["template"]["spec"],
}
"""The pods of what trains, by kind."""


@pytest.mark.case("acceptance-5")
@pytest.mark.parametrize("kind", WORLDS)
def test_what_is_said_of_a_spec_follows_each_edit(kind: str) -> None:
    """Edits that are refused, or warned of, one a second after the other, and each in another field."""
    world = WORLDS[kind]()
    for field in ("nodeSelecter", "tolerationz"):
        world.now += 1
        world.edit(lambda spec, field=field: TEMPLATES[kind](spec).update({field: []}))  # type: ignore[misc]
        world.live()
        assert field in (world.condition("Warned") or {})["message"]
    for quantity in ("lots", "heaps"):
        world.now += 1
        bad = [BAD[0] | {"resources": {"limits": {"cpu": quantity}}}]
        world.edit(lambda spec, bad=bad: TEMPLATES[kind](spec).update(containers=bad))  # type: ignore[misc]
        world.live()
        assert quantity in refusal(world)
    assert "lots" not in refusal(world)


@pytest.mark.case("acceptance-4")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_spec_edited_into_something_invalid_is_followed_as_it_was(kind: str) -> None:
    world = WORLDS[kind]()
    name = "trainer" if kind == "training" else "worker"
    first = world.pods(name)[0]
    image = world.objects["Pod", first]["spec"]["containers"][0]["image"]
    world.edit(lambda spec: TEMPLATES[kind](spec).update(containers=BAD))
    world.live()
    assert "lots" in refusal(world)
    world.end(first, 137)
    world.live()
    assert world.objects["Pod", f"{first}-1"]["spec"]["containers"][0]["image"] == image


@pytest.mark.case("acceptance-4")
@pytest.mark.parametrize(
    ("kind", "field", "edit"),
    [
        ("pytorch", "rdzvEndpoint", lambda spec: spec.update(rdzvEndpoint="other:2379")),
        ("easydl", "distributionStrategy", lambda spec: spec.update(distributionStrategy="ring-allreduce")),
    ],
)
def test_what_its_types_declare_as_unchanging_is_kept(kind: str, field: str, edit: Edit) -> None:
    """Also where nothing at the door refuses it."""
    world = WORLDS[kind]()
    first = world.pods("worker")[0]
    variables = environment(world, first)
    world.edit(edit)
    world.live()
    assert f"spec.{field}: cannot be changed" in refusal(world)
    world.end(first, 137)
    world.live()
    new = environment(world, f"{first}-1")
    assert {name: value for name, value in new.items() if "RDZV_ENDPOINT" in name or name == "TF_CONFIG"} == {
        name: value for name, value in variables.items() if "RDZV_ENDPOINT" in name or name == "TF_CONFIG"
    }


@pytest.mark.parametrize("kind", WORLDS)
def test_nothing_is_remembered_before_the_first_pod_or_after_the_end(kind: str) -> None:
    field = "in_force" if kind == "training" else "inForce"
    waiting = {"training": lambda: World(manifest()), "pytorch": PytorchWorld, "easydl": EasydlWorld}[kind]()
    waiting.grant = Grant(0, "NoRoom", "needs 2 CPU", roles={"trainer": 1})
    waiting.live()
    assert field not in waiting.status
    world = WORLDS[kind]()
    assert field in world.status
    for pod in world.names("Pod"):
        world.end(pod, 0)
    world.live()
    assert world.status["phase"].lower() == "succeeded"
    assert field not in world.status


def test_what_is_remembered_has_a_bound() -> None:
    notes = {"metadata": {"annotations": {"a.b/c": "x" * LONGEST}}}
    world = running(trainer={"template": notes})
    assert "in_force" not in world.status
    world.edit(lambda spec: spec.update(port=9000))
    world.live()
    assert "spec.port: 9000 cannot take effect" in refusal(world), "the note on its Job is left"
