"""Warnings of what is valid but probably not meant, and edits that cannot be honoured."""

import pytest

from edl.jobs.admission import check, check_edit
from tests.api.samples import ABSENT, EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB, Data, found, varied

GPU = {"nvidia.com/gpu": 1}


@pytest.mark.case("acceptance-15")
@pytest.mark.parametrize(
    ("sample", "changes", "message"),
    [
        (
            TRAINING_JOB,
            {"spec.fault_tolerant": False},
            "spec.trainer.max-instance: the job is scaled from 2 to 6, but with fault_tolerant: false one trainer "
            "that fails "
            "by itself fails the job; set fault_tolerant: true, or max-instance to min-instance",
        ),
        (
            TRAINING_JOB,
            {"spec.master": ABSENT},
            "spec.master: without a master the job stays at 2 trainers and is never scaled; add `master: {}`",
        ),
        (
            TRAINING_JOB,
            {"spec.pserver.max-instance": 4, "spec.trainer.max-instance": 2},
            "spec.pserver.max-instance: parameter servers are scaled with the trainers, whose number is fixed; raise "
            "spec.trainer.max-instance",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.resources": {"limits": GPU}},
            "spec.trainer.resources: asks for GPUs and no cpu; training stalls when launching kernels and copying "
            "waits for "
            "CPU: add cpu",
        ),
        (
            TRAINING_JOB,
            {"metadata.annotations": {"edl.dev/piority": "1"}},
            "metadata.annotations[edl.dev/piority]: EDL knows no such annotation; did you mean edl.dev/priority?",
        ),
        (
            PYTORCH_JOB,
            {"spec.replicaSpecs.Worker.template.spec.restartPolicy": "Always"},
            "spec.replicaSpecs.Worker.template.spec.restartPolicy: is ignored: EDL replaces pods itself",
        ),
        (
            PYTORCH_JOB,
            {"spec.replicaSpecs.Worker.template.spec.nodeSelecter": {}},
            "spec.replicaSpecs.Worker.template.spec.nodeSelecter: Kubernetes knows no such field, it is passed on; "
            "did you "
            "mean nodeSelector?",
        ),
        (
            PYTORCH_JOB,
            {"spec.replicaSpecs.Worker.template.spec.containers.0.comand": []},
            "spec.replicaSpecs.Worker.template.spec.containers[0].comand: Kubernetes knows no such field, it is "
            "passed on; "
            "did you mean command?",
        ),
        (
            TRAINING_JOB,
            {"spec.fault_tolerant": True, "spec.etcd": {}},
            "spec.etcd.image: none is named: coreos/etcd:v3.5.21 is taken, which the cluster must be able to pull; "
            "name one",
        ),
        (
            EASYDL_JOB,
            {
                "spec.distributionStrategy": "ring-allreduce",
                "spec.parameterServer": ABSENT,
                "spec.worker.template.spec.containers.0.command": ["horovodrun", "python", "train.py"],
            },
            "spec.worker.template: names Horovod: EDL sets its variables (HOROVOD_*) and serves no elastic driver; "
            "bring your own in spec.trainer, or use torchrun, for which EDL serves the rendezvous",
        ),
        (
            EASYDL_JOB,
            {"spec.distributionStrategy": "ring-allreduce"},
            "spec.parameterServer: is ignored with distributionStrategy ring-allreduce",
        ),
    ],
)
def test_warnings(sample: Data, changes: Data, message: str) -> None:
    changed = varied(sample, **changes)
    assert found(changed, "warning") == [message]
    assert check(changed).object is not None


@pytest.mark.case("acceptance-23")
@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ({}, False),
        ({"spec.volumes": ABSENT}, True),
        ({"spec.volumes": [{"name": "data", "emptyDir": {}}]}, True),
        ({"spec.volumes": [{"name": "data", "hostPath": {"path": "/d"}}]}, False),
        ({"spec.volumes": [{"name": "other", "nfs": {}}]}, True),
        ({"spec.volumes": ABSENT, "spec.mountPath": ABSENT}, False),
        (
            {
                "spec.volumes": ABSENT,
                "spec.pserver.template": {"spec": {"volumes": [{"name": "data", "nfs": {"server": "s", "path": "/"}}]}},
            },
            False,
        ),
    ],
)
def test_data_that_goes_with_its_pod_is_a_warning(changes: Data, warns: bool) -> None:
    warnings = found(varied(TRAINING_JOB, **changes), "warning")
    assert any(one.startswith("spec.mountPath: shows a directory that goes with its pod") for one in warnings) == warns


def test_edits_that_cannot_be_honoured() -> None:
    ring = varied(EASYDL_JOB, **{"spec.distributionStrategy": "ring-allreduce"})
    assert [str(problem) for problem in check_edit(EASYDL_JOB, ring)] == [
        "spec.distributionStrategy: cannot be changed: running pods cannot change it; make a new job"
    ]
    named = varied(EASYDL_JOB, **{"spec.distributionStrategy": "ParameterServerStrategy"})
    assert check_edit(EASYDL_JOB, named) == ()
    other = varied(JOB_RESOURCE, **{"spec.selector.name": "other"})
    assert [problem.path for problem in check_edit(JOB_RESOURCE, other)] == ["spec.selector.name"]
    assert check_edit(TRAINING_JOB, varied(TRAINING_JOB, **{"spec.trainer.max-instance": 60})) == ()
    assert check_edit(TRAINING_JOB, PYTORCH_JOB) == ()


def test_any_number_of_warnings_is_no_error() -> None:
    containers = [{"name": f"c{number}", "image": "x", "comand": []} for number in range(300)]
    changed = varied(PYTORCH_JOB, **{"spec.replicaSpecs.Worker.template.spec.containers": containers})
    assert check(changed).object is not None
    assert len(found(changed, "warning")) == 101
    broken = varied(changed, **{"spec.replicaSpecs.Worker.template.spec.containers.299.name": "C"})
    assert len(found(broken, "error")) == 1, "and an error behind them is found"
