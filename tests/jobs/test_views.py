"""The view that scheduler and jobs share: sizes, roles, templates and wishes, for each kind."""

import copy
from typing import Any

import pytest

from edl.api.job_view import Installation, JobView, Role, replicas_at
from edl.jobs.admission import check
from edl.jobs.easydl.job_resource import JobResource
from edl.jobs.easydl.types import ElasticJob as EasydlJob
from edl.jobs.registry import EASYDL_JOB as EASYDL
from edl.jobs.views import view
from tests.api.samples import ABSENT, EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB, Data, varied

# Its trainer has its place: from here on plans are followed.
BEGUN: Data = EASYDL_JOB | {"status": {"scale": {"target": 1, "lastScaleTime": "2026-01-01T00:00:00Z"}}}


def object_of(value: Data) -> Any:
    checked = check(value)
    assert checked.object is not None, checked.problems
    return checked.object


def seen(value: Data, **options: Any) -> JobView:
    return view(object_of(value), **options)


def counts(found: JobView, size: int) -> dict[str, int]:
    return {role.name: replicas_at(role, size) for role in found.roles}


def container(found: JobView, role: str) -> dict[str, Any]:
    wanted = found.role(role)
    assert wanted is not None
    first: dict[str, Any] = wanted.template["spec"]["containers"][0]
    return first


def test_a_training_job_starts_with_one_master_and_as_many_servers_as_trainers() -> None:
    found = seen(TRAINING_JOB)
    assert (found.min, found.max, found.start, found.elastic) == (2, 6, 2, True)
    assert counts(found, 2) == {"master": 1, "pserver": 2, "trainer": 2}
    assert counts(found, 6) == {"master": 1, "pserver": 2, "trainer": 6}
    assert counts(found, 0) == {"master": 0, "pserver": 0, "trainer": 0}


def test_elastic_parameter_servers_follow_in_proportion() -> None:
    found = seen(varied(TRAINING_JOB, **{"spec.pserver.min-instance": 1, "spec.pserver.max-instance": 3}))
    assert [counts(found, size)["pserver"] for size in range(8)] == [0, 1, 1, 2, 2, 3, 3, 3]


def test_without_a_master_the_size_is_fixed() -> None:
    found = seen(varied(TRAINING_JOB, **{"spec.master": ABSENT, "spec.trainer.replicas": 3}))
    assert (found.min, found.max, found.start) == (3, 3, 3)
    assert found.fixed == "it has no master (spec.master)"
    assert found.role("master") is None
    assert seen(varied(TRAINING_JOB, **{"spec.master": ABSENT, "spec.trainer.max-instance": 2})).fixed == ""


def test_a_pin_holds_what_the_user_wrote_and_keeps_the_proportion() -> None:
    pinned = varied(
        TRAINING_JOB,
        **{
            "metadata.annotations": {"edl.dev/pin": "true"},
            "spec.trainer.replicas": 4,
            "spec.pserver.min-instance": 1,
            "spec.pserver.max-instance": 3,
        },
    )
    found = seen(pinned)
    assert (found.min, found.max, found.fixed) == (4, 4, "it is pinned (edl.dev/pin)")
    assert counts(found, 4)["pserver"] == 2


def test_edl_runs_its_own_servers_unless_they_name_a_command() -> None:
    installation = Installation(image="edl:test")
    found = seen(varied(TRAINING_JOB, **{"spec.pserver.command": ["serve"]}), installation=installation)
    assert (container(found, "master")["image"], container(found, "master")["command"]) == (
        "edl:test",
        ["edl", "master"],
    )
    assert container(found, "pserver")["image"] == "paddlepaddle/paddlecloud-job"
    assert container(found, "pserver")["command"] == ["serve"]
    trainer = container(found, "trainer")
    assert (trainer["command"], trainer["workingDir"]) == (["sh", "-c", "python train.py"], "/home/job-1/")


TEMPLATE: Data = {
    "metadata": {"labels": {"team": "ads"}, "name": "dropped"},
    "spec": {
        "tolerations": [{"key": "gpu"}],
        "nodeSelector": {"zone": "a", "disk": "hdd"},
        "volumes": [{"name": "cache", "emptyDir": {}}],
        "containers": [
            {"name": "log", "image": "log", "resources": {"limits": {"cpu": "100m"}}},
            {"name": "trainer", "image": "under", "env": [{"name": "A"}], "volumeMounts": [{"name": "cache"}]},
        ],
    },
}


def test_what_the_job_says_lies_over_the_template() -> None:
    job = varied(
        TRAINING_JOB,
        **{
            "spec.trainer.template": TEMPLATE,
            "spec.NodeSelector": {"disk": "ssd"},
            "spec.imagePullSecrets": [{"name": "key"}],
            "spec.volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
            "spec.VolumeMounts": [{"name": "data", "mountPath": "/more"}],
            "spec.host_network": True,
        },
    )
    before = copy.deepcopy(job)
    found = seen(job)
    assert job == before
    template_of_trainer = found.lead.template
    pod = template_of_trainer["spec"]
    assert template_of_trainer["metadata"] == {"labels": {"team": "ads"}}
    assert [each["name"] for each in pod["containers"]] == ["trainer", "log"]
    assert pod["containers"][0]["image"] == "paddlepaddle/paddlecloud-job"
    assert pod["containers"][0]["env"] == [{"name": "A"}]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "cache"},
        {"name": "data", "mountPath": "/home/work/namespace/"},
        {"name": "data", "mountPath": "/more"},
    ]
    assert pod["containers"][1]["resources"] == {"limits": {"cpu": "100m"}, "requests": {"cpu": "100m"}}
    assert pod["nodeSelector"] == {"zone": "a", "disk": "ssd"}
    assert [volume["name"] for volume in pod["volumes"]] == ["cache", "data"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert (pod["tolerations"], pod["imagePullSecrets"]) == ([{"key": "gpu"}], [{"name": "key"}])


def test_an_etcd_cluster_is_a_fixed_role_that_comes_first() -> None:
    found = seen(varied(TRAINING_JOB, **{"spec.etcd": {"replicas": 3, "image": "etcd:mine"}}))
    assert [role.name for role in found.roles] == ["etcd", "master", "pserver", "trainer"]
    assert counts(found, 5)["etcd"] == 3
    assert container(found, "etcd")["image"] == "etcd:mine"


def test_the_image_of_etcd_may_come_from_its_template() -> None:
    template = {"spec": {"containers": [{"name": "etcd", "image": "etcd:theirs"}]}}
    found = seen(varied(TRAINING_JOB, **{"spec.etcd": {"template": template}}))
    assert container(found, "etcd")["image"] == "etcd:theirs"


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({}, (2, 5, 3)),
        ({"spec.minReplicas": ABSENT, "spec.maxReplicas": ABSENT}, (3, 3, 3)),
        ({"spec.replicaSpecs.Worker.replicas": ABSENT}, (2, 5, 2)),
        ({"spec.replicaSpecs.Worker.replicas": ABSENT, "spec.maxReplicas": ABSENT}, (2, 2, 2)),
        ({"metadata.annotations": {"edl.dev/pin": "true"}}, (3, 3, 3)),
        ({"metadata.annotations": {"edl.dev/sizes": "1,2,4,8"}}, (2, 4, 2)),
    ],
)
def test_sizes_of_a_pytorch_job(changes: Data, sizes: tuple[int, int, int]) -> None:
    found = seen(varied(PYTORCH_JOB, **changes))
    assert (found.min, found.max, found.start) == sizes
    assert [role.name for role in found.roles] == ["worker"]


def test_an_easydl_job_is_its_trainer_until_a_plan_comes() -> None:
    found = seen(EASYDL_JOB, installation=Installation(image="edl:test"))
    assert (found.min, found.max, counts(found, 1)) == (1, 1, {"trainer": 1})
    assert container(found, "trainer") == {"name": "trainer", "image": "edl:test", "command": ["edl", "trainer"]}
    assert found.lead.template["spec"]["automountServiceAccountToken"] is False, "it has no business with the API"


def test_the_trainer_comes_first_even_if_its_plan_is_there_already() -> None:
    found = seen(EASYDL_JOB, companion=object_of(JOB_RESOURCE))
    assert (found.lead.name, found.max, counts(found, 1)) == ("trainer", 1, {"trainer": 1})


def test_what_was_granted_to_the_trainer_is_no_grant_of_workers() -> None:
    assert (seen(BEGUN).target, seen(BEGUN).last_scale_time is None) == (1, False)
    planned = seen(BEGUN, companion=object_of(JOB_RESOURCE))
    assert (planned.lead.name, planned.target, planned.last_scale_time) == ("worker", None, None)


def test_a_plan_gives_fixed_servers_and_elastic_workers() -> None:
    found = seen(BEGUN, companion=object_of(JOB_RESOURCE), installation=Installation(gpu="amd.com/gpu"))
    assert (found.min, found.max, found.start) == (1, 4, 1)
    assert counts(found, 1) == {"trainer": 1, "ps": 4, "worker": 1, "evaluator": 0}
    assert counts(found, 4) == {"trainer": 1, "ps": 4, "worker": 4, "evaluator": 1}
    asked = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "8Gi", "amd.com/gpu": "1"}
    assert container(found, "worker")["resources"] == {"requests": asked, "limits": asked}
    servers = found.role("ps")
    assert servers is not None
    larger = servers.template_at(1)["spec"]["containers"][0]["resources"]["limits"]
    assert larger == asked | {"cpu": "16", "memory": "8Gi"}
    assert servers.template_at(2) is servers.template
    assert servers.template["metadata"] == {"annotations": {"sidecar.istio.io/inject": "false"}}


def test_roles_that_a_plan_does_not_name_are_left_alone() -> None:
    status = {"plan": {"roles": {"ps": {"replicas": 2, "resource": {"cpu": 3}}, "worker": {"replicas": 3}}}}
    plan = varied(JOB_RESOURCE, **{"spec.worker": ABSENT, "spec.parameter_server": ABSENT})
    found = seen(EASYDL_JOB | {"status": status}, companion=object_of(plan))
    assert (found.min, found.max) == (1, 3)
    assert counts(found, 3) == {"trainer": 1, "ps": 2, "worker": 3, "evaluator": 1}
    servers = next(role for role in found.roles if role.name == "ps")
    cpus = [servers.template_at(index)["spec"]["containers"][0]["resources"]["limits"]["cpu"] for index in (0, 2)]
    assert cpus == ["8", "3"]  # an entry of its own, and what the role had


def test_a_job_follows_its_last_plan_when_that_is_gone() -> None:
    status = {"plan": {"roles": {"ps": {"replicas": 2}, "worker": {"replicas": 3}}}}
    assert counts(seen(EASYDL_JOB | {"status": status}), 2) == {"trainer": 1, "ps": 2, "worker": 2}


def test_without_workers_the_trainer_leads_and_the_others_keep_it_company() -> None:
    found = seen(BEGUN, companion=object_of(varied(JOB_RESOURCE, **{"spec.worker.replicas": 0})))
    assert (found.min, found.max, found.lead.name) == (1, 1, "trainer")
    assert counts(found, 1) == {"trainer": 1, "ps": 4, "evaluator": 1}


def test_ring_allreduce_has_no_parameter_servers() -> None:
    job = varied(BEGUN, **{"spec.distributionStrategy": "AllreduceStrategy"})
    assert counts(seen(job, companion=object_of(JOB_RESOURCE)), 1) == {"trainer": 1, "worker": 1, "evaluator": 0}


def test_the_oldest_plan_of_the_same_namespace_rules() -> None:
    def plan(name: str, **metadata: str) -> JobResource:
        made: JobResource = object_of(varied(JOB_RESOURCE, metadata={"name": name, **metadata}))
        return made

    job: EasydlJob = object_of(EASYDL_JOB)
    old = plan("z", creationTimestamp="2026-01-01T00:00:00Z")
    new = plan("a", creationTimestamp="2026-01-02T00:00:00Z")
    far = plan("b", namespace="other", creationTimestamp="2026-01-03T00:00:00Z")
    going = plan("c", creationTimestamp="2025-01-04T00:00:00Z", deletionTimestamp="2026-01-05T00:00:00Z")
    assert EASYDL.followed(job, [new, old, far, going]) is old
    assert EASYDL.followed(job, [far]) is None


@pytest.mark.parametrize(
    ("changes", "priority", "source"),
    [
        ({}, 1000, "default"),
        ({"spec.priority": "Production"}, 10000, "spec.priority"),
        ({"spec.priority": "Experiement"}, 10, "spec.priority"),
        ({"spec.priority": 7}, 7, "spec.priority"),
        ({"metadata.annotations": {"edl.dev/priority": "Offline"}}, 100, "edl.dev/priority"),
        ({"metadata.annotations": {"edl.dev/priority": "42"}, "spec.priority": "Normal"}, 1000, "spec.priority"),
        ({"spec.trainer.template": {"spec": {"priorityClassName": "high"}}}, 5000, "priorityClassName high"),
        ({"spec.trainer.template": {"spec": {"priorityClassName": "low"}}}, 1, "priorityClassName low"),
        ({"spec.trainer.template": {"spec": {"priorityClassName": "unknown"}}}, 1000, "default"),
    ],
)
def test_priority(changes: Data, priority: int, source: str) -> None:
    found = seen(varied(TRAINING_JOB, **changes), priority_classes={"high": 5000, "low": -10})
    assert (found.priority, found.priority_source) == (priority, source)


def test_wishes_and_facts() -> None:
    job = varied(
        TRAINING_JOB,
        **{
            "metadata.annotations": {"edl.dev/pause": "true", "edl.dev/admission": "create"},
            "metadata.generation": 3,
            "spec.freezing_window": "1m",
            "spec.suspend": True,
            "status": {
                "phase": "running",
                "scale_status": {
                    "current": 4,
                    "target": 5,
                    "last_scale_time": "1970-01-01T00:01:00Z",
                    "pod_seconds": 7,
                },
            },
        },
    )
    found = seen(job)
    assert (found.pause, found.admission, found.suspend, found.freezing_window) == (True, "create", True, 60.0)
    assert (found.current, found.target, found.last_scale_time, found.pod_seconds) == (4, 5, 60.0, 7.0)
    assert (found.phase, found.finished, found.generation) == ("running", False, 3)
    assert found.key == ("testspace", "paddlejob")
    assert seen(varied(TRAINING_JOB, **{"status": {"phase": "failed"}})).finished
    assert seen(varied(PYTORCH_JOB, **{"status": {"phase": "Succeeded"}})).finished


def test_proportion_is_monotonous_and_within_bounds() -> None:
    for least, most, role_min, role_max in [(1, 1, 1, 3), (1, 7, 0, 1), (3, 1000, 1, 999), (2, 6, 0, 20)]:
        role = Role(name="r", min=role_min, max=role_max, sizes=(least, most), template={})
        found = [replicas_at(role, size) for size in range(least, most + 1)]
        assert found == sorted(found)
        assert found[0] == role_min
        assert found[-1] == (role_max if most > least else role_min)
