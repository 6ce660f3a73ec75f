"""The life of a SleepJob in an EDL whose registry has one line more. Run by `tests/jobs/test_fourth_kind.py`."""

from tests.jobs.fourth_kind import registered  # noqa: I001, F401  # first of all: everything below reads the registry

import asyncio
from typing import Any

from edl.cli.connect.jobs import all_jobs, find_job
from edl.install.options import InstallOptions
from edl.install.permissions import cluster_permissions
from edl.install.user_roles import user_roles
from edl.jobs.admission import check
from edl.jobs.crds import crds
from edl.jobs.views import view
from edl.operator.resources import PODS, resource_of
from tests.jobs.fourth_kind.kind import KIND, SleepJob
from tests.operator.stage import Stage, stage
from tests.scheduler.makers import node, planned, targets

JOB: dict[str, Any] = {
    "apiVersion": "toys.example.com/v1",
    "kind": "SleepJob",
    "metadata": {"name": "nap", "namespace": "default", "annotations": {"edl.dev/freezing-window": "0s"}},
    "spec": {"image": "busybox"},
}


def decoded_defaulted_and_validated() -> None:
    found = check(JOB).object
    assert isinstance(found, SleepJob)
    assert found.spec.most == 2
    bad = JOB | {"spec": {"image": "a b", "mosst": 3}}
    assert [str(problem) for problem in check(bad).problems] == [
        "spec.mosst: unknown field; did you mean most?",
        "spec.image: has a space in it",
    ], check(bad).problems


def viewed_and_planned_for() -> None:
    found = check(JOB).object
    assert found is not None
    seen = view(found)
    assert (seen.min, seen.max, seen.lead.name) == (1, 2, "sleeper")
    assert targets(planned(node("n1"), JOB)) == {"nap": 2}


def installed() -> None:
    assert "sleepjobs.toys.example.com" in [crd["metadata"]["name"] for crd in crds()]
    assert any("sleepjobs/status" in permission.resources for permission in cluster_permissions("edl-system"))
    assert any("sleepjobs" in rule["resources"] for role in user_roles(InstallOptions()) for rule in role["rules"])


async def reconciled_and_listed() -> None:
    async with stage() as scene, scene.operator():
        scene.jobs = resource_of(KIND)
        await scene.make(JOB)
        await scene.until(lambda: _sleeping(scene), "two sleepers", "nap")
        await scene.until_phase("Running", "nap")
        assert "nap" in [job.name for job in await all_jobs(scene.client, "default")]
        assert (await find_job(scene.client, "default", "sj/nap")).label == "sleepjob/nap"


async def _sleeping(scene: Stage) -> bool:
    pods = await scene.client.list(PODS, namespace="default")
    return sorted(pod["metadata"]["name"] for pod in pods.items) == ["nap-sleeper-0", "nap-sleeper-1"]


if __name__ == "__main__":
    decoded_defaulted_and_validated()
    viewed_and_planned_for()
    installed()
    asyncio.run(reconciled_and_listed())
    print("a fourth kind works")
