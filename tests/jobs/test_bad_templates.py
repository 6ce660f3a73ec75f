"""No template that validation lets in breaks our own code: what is no object where one belongs is refused."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from edl.api.schema.problem import errors
from edl.jobs.admission import check
from edl.jobs.core.grant import Grant
from edl.jobs.views import view
from tests.jobs.easydl.world import EasydlWorld, easydl
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import Data, World, manifest

BASE: Data = {"spec": {"containers": [{"name": "trainer", "image": "i"}]}}
POD_LISTS = ("volumes", "imagePullSecrets", "tolerations", "initContainers", "containers", "hostAliases")
POD_OBJECTS = ("nodeSelector", "affinity", "securityContext", "dnsConfig")
CONTAINER_LISTS = ("env", "envFrom", "volumeMounts", "ports", "command", "args")
CONTAINER_OBJECTS = ("resources", "securityContext", "lifecycle", "livenessProbe")
METADATA = ("oops", ["x"], {"labels": ["x"]}, {"labels": {"a": 7}}, {"annotations": "x"}, {"labels": "x"})
ITEMS: tuple[Any, ...] = ("oops", 7, None, {}, [], {"name": 7})


def templates() -> Iterator[Data]:
    for names, values in (
        (POD_LISTS, ([item] for item in ITEMS)),
        (POD_LISTS, ("oops", 7, {"a": 1})),
        (POD_OBJECTS, ("oops", 7, ["x"])),
    ):
        for value in list(values):
            yield from (_with(copy.deepcopy(BASE), "pod", name, value) for name in names)
    for names, values in (
        (CONTAINER_LISTS, ([item] for item in ITEMS)),
        (CONTAINER_LISTS, ("oops", 7, {"a": 1})),
        (CONTAINER_OBJECTS, ("oops", 7, ["x"])),
    ):
        for value in list(values):
            yield from (_with(copy.deepcopy(BASE), "container", name, value) for name in names)
    yield from ({**copy.deepcopy(BASE), "metadata": metadata} for metadata in METADATA)


def _with(template: Data, where: str, name: str, value: Any) -> Data:
    place = template["spec"] if where == "pod" else template["spec"]["containers"][0]
    place[name] = value
    return template


def worlds(template: Data) -> Iterator[World]:
    volumes = [{"name": "x", "emptyDir": {}}]
    yield World(manifest(trainer={"template": template}, mountPath="/d", volumes=volumes))
    job = elastic()
    job["spec"]["replicaSpecs"]["Worker"]["template"] = template
    yield PytorchWorld(job)
    yield EasydlWorld(easydl(trainer={"template": template}))


@pytest.mark.case("attack-low-volumes")
def test_whatever_a_template_holds_it_is_refused_or_works() -> None:
    for template in templates():
        for world in worlds(template):
            world.settings = replace(world.settings, data_root="/x")
            world.grant = world.grant or Grant(2)
            checked = check(world.job)
            if checked.object is not None:
                view(checked.object)
                world.live()


@pytest.mark.case("attack-low-volumes")
@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"volumes": ["oops"]}, 'spec.volumes[0]: found text "oops", wants an object'),
        ({"volumes": "oops"}, 'spec.volumes: found text "oops", wants a list of objects'),
        ({"tolerations": [None]}, "spec.tolerations[0]: found null, wants an object"),
    ],
)
def test_a_list_without_objects_is_refused_by_its_place(spec: Data, problem: str) -> None:
    template = {"spec": BASE["spec"] | spec}
    for world in worlds(template):
        assert any(str(one).endswith(problem) for one in errors(check(world.job).problems)), check(world.job).problems


@pytest.mark.case("attack-low-volumes")
def test_the_jobs_own_volumes_are_objects_too() -> None:
    assert errors(check(manifest(volumes=["oops"])).problems)
