"""Validation: what no type can say, as errors and warnings."""

from typing import Any

import pytest

from edl.api.schema.problem import path_text
from edl.jobs.admission import check, default, validate
from edl.jobs.decoding import decode
from edl.jobs.training.types import TrainingJob
from tests.api.samples import ABSENT, ALL, EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB, Data, found, varied


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample["metadata"]["name"])
def test_the_samples_are_good(sample: Data) -> None:
    assert check(sample).problems == ()


def test_defaults_of_a_training_job() -> None:
    minimal = {
        "apiVersion": "paddlepaddle.org/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job"},
        "spec": {
            "trainer": {"entrypoint": "python train.py", "min-instance": 3},
            "pserver": {},
            "passes": 4,
            "etcd": {},
        },
    }
    job = check(minimal).object
    assert isinstance(job, TrainingJob)
    spec, trainer = job.spec, job.spec.trainer
    assert (spec.port, spec.ports_num, spec.ports_num_for_sparse, spec.fault_tolerant) == (7164, 1, 1, False)
    assert (trainer.max_instance, trainer.replicas, trainer.passes, spec.backoff_limit) == (3, 3, 4, 6)
    assert spec.pserver is not None
    assert (spec.pserver.min_instance, spec.pserver.max_instance) == (3, 3)
    assert spec.etcd is not None
    assert spec.etcd.replicas == 1
    assert (spec.image, spec.master, job.api_version) == (None, None, "paddlepaddle.org/v1alpha1")


def test_defaults_of_the_others() -> None:
    worker = {"template": PYTORCH_JOB["spec"]["replicaSpecs"]["Worker"]["template"]}
    pytorch: Any = check(varied(PYTORCH_JOB, spec={"minReplicas": 2, "replicaSpecs": {"Worker": worker}})).object
    assert (pytorch.spec.max_replicas, pytorch.spec.clean_pod_policy) == (2, "None")
    assert pytorch.spec.replica_specs.worker.restart_policy == "OnFailure"
    easydl: Any = check(
        varied(EASYDL_JOB, **{"spec.distributionStrategy": ABSENT, "spec.worker.restartCount": ABSENT})
    ).object
    assert (easydl.spec.distribution_strategy, easydl.spec.worker.restart_count) == ("parameter_server", 3)


def test_validation_takes_objects_with_and_without_defaults() -> None:
    job = decode(varied(TRAINING_JOB, **{"spec.trainer.min-instance": 7})).rest
    assert job is not None
    assert [str(problem) for problem in validate(job)] == ["spec.trainer.min-instance: 7 is more than max-instance 6"]
    assert str(validate(default(job))[0]) == "spec.trainer.min-instance: 7 is more than max-instance 6"


@pytest.mark.parametrize(
    ("sample", "changes", "message"),
    [
        (TRAINING_JOB, {"spec.trainer.replicas": 9}, "spec.trainer.replicas: 9 is more than max-instance 6"),
        (TRAINING_JOB, {"spec.trainer.replicas": 1}, "spec.trainer.min-instance: 2 is more than replicas 1"),
        (
            TRAINING_JOB,
            {"spec.trainer.replicas": 3, "spec.trainer.max-instance": ABSENT},
            "spec.trainer.replicas: 3 is more than min-instance 2",
        ),
        (
            TRAINING_JOB,
            {"spec.pserver.max-instance": 1},
            "spec.pserver.max-instance: 1 is less than min-instance, which is omitted and so that of the trainers, 2; "
            "give spec.pserver.min-instance",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.entrypoint": " "},
            "spec.trainer.entrypoint: is blank: the command line of a trainer",
        ),
        (TRAINING_JOB, {"spec.mountPath": "data"}, 'spec.mountPath: "data" is not absolute; begin it with /'),
        (TRAINING_JOB, {"spec.image": "a b"}, 'spec.image: "a b" has a space in it'),
        (
            TRAINING_JOB,
            {"spec.freezing_window": "30"},
            "spec.freezing_window: '30' has no unit; wants a duration such as 30s, 1m30s or 500ms",
        ),
        (
            TRAINING_JOB,
            {"spec.priority": "Hihg"},
            'spec.priority: "Hihg": wants Experiment, Offline, Normal, Production or a positive number',
        ),
        (
            TRAINING_JOB,
            {"spec.port": 65535},
            "spec.port: the last of its ports would be 65536, more than 65535; lower port or ports_num",
        ),
        (TRAINING_JOB, {"spec.volumes": [{}]}, "spec.volumes[0].name: is required"),
        (TRAINING_JOB, {"spec.VolumeMounts": [{"name": "a"}]}, "spec.VolumeMounts[0].mountPath: is required"),
        (
            TRAINING_JOB,
            {"spec.trainer.resources.requests.cpu": "1"},
            "spec.trainer.resources.requests.cpu: 1 is more than the limit 200m; raise limits.cpu",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.resources.limits.gpu": 1},
            "spec.trainer.resources.limits.gpu: unknown resource; did you mean nvidia.com/gpu?",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.resources.limits.disk": 1},
            "spec.trainer.resources.limits.disk: unknown resource, others than cpu, memory, ephemeral-storage are "
            "named "
            "vendor/resource",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.resources.limits.nvidia~com/gpu": "500m"},
            "spec.trainer.resources.limits[nvidia.com/gpu]: 500m is not a whole number, which nvidia.com/gpu must be",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.resources.requests.nvidia~com/gpu": 1},
            "spec.trainer.resources.requests[nvidia.com/gpu]: wants the same under limits.nvidia.com/gpu: it cannot be "
            "overcommitted",
        ),
        (
            TRAINING_JOB,
            {"spec.trainer.template": {"spec": {"containers": [{"name": "log"}]}}},
            "spec.trainer.template.spec.containers[0].image: is required: the image of the container",
        ),
        (
            TRAINING_JOB,
            {"metadata.annotations": {"edl.dev/pin": "yes"}},
            'metadata.annotations[edl.dev/pin]: "yes": wants "true" or "false"',
        ),
        (
            TRAINING_JOB,
            {"metadata.annotations": {"edl.dev/sizes": "8,16"}},
            "metadata.annotations[edl.dev/sizes]: no size of 8,16 is within 2 to 6",
        ),
        (
            TRAINING_JOB,
            {"metadata.annotations": {"edl.dev/sizes": "1,x"}},
            'metadata.annotations[edl.dev/sizes]: "1,x": wants positive numbers with commas between them, such as '
            "1,2,4,8",
        ),
        (
            TRAINING_JOB,
            {"metadata.annotations": {"edl.dev/freezing-window": "-1s"}},
            "metadata.annotations[edl.dev/freezing-window]: -1s is negative; a duration is 0 or more",
        ),
        (
            TRAINING_JOB,
            {"metadata.annotations": {"edl.dev/admission": "later"}},
            'metadata.annotations[edl.dev/admission]: "later": wants hold or create',
        ),
        (
            TRAINING_JOB,
            {"metadata.name": "Job"},
            "metadata.name: 'Job' must be lower case letters, digits and '-', and begin and end with a letter or digit",
        ),
        (
            TRAINING_JOB,
            {"metadata.labels": {"a": "b c"}},
            "metadata.labels.a: label value 'b c' must be letters, digits, '-', '_' and '.', and begin and end with "
            "a letter "
            "or digit",
        ),
        (PYTORCH_JOB, {"spec.minReplicas": 4}, "spec.minReplicas: 4 is more than replicas 3"),
        (
            PYTORCH_JOB,
            {"spec.minReplicas": ABSENT, "spec.replicaSpecs.Worker.replicas": ABSENT},
            "spec.minReplicas: is required, unless replicaSpecs.Worker.replicas says",
        ),
        (
            PYTORCH_JOB,
            {"spec.replicaSpecs.Worker.template": {"spec": {}}},
            "spec.replicaSpecs.Worker.template.spec.containers: is required: a container with an image",
        ),
        (
            PYTORCH_JOB,
            {"spec.replicaSpecs.Worker.template.spec.containers.0.image": ABSENT},
            "spec.replicaSpecs.Worker.template.spec.containers[0].image: is required: the image of the container",
        ),
        (
            PYTORCH_JOB,
            {"spec.replicaSpecs.Worker.template.spec.containers.0.resources": {"limits": {"cpu": "x"}}},
            "spec.replicaSpecs.Worker.template.spec.containers[0].resources.limits.cpu: 'x': wants a quantity such "
            "as 500m, "
            "2 or 1Gi",
        ),
        (
            PYTORCH_JOB,
            {"spec.rdzvEndpoint": "etcd:http"},
            'spec.rdzvEndpoint: "etcd:http": the port must be 1 to 65535',
        ),
        (PYTORCH_JOB, {"spec.rdzvEndpoint": "a b:1"}, 'spec.rdzvEndpoint: "a b:1": wants host:port'),
        (
            EASYDL_JOB,
            {"spec.parameterServer": ABSENT},
            "spec.parameterServer: is required unless distributionStrategy is ring-allreduce or AllreduceStrategy",
        ),
        (
            JOB_RESOURCE,
            {"spec.selector.name": "elastic-deepctr-job  // Job Name"},
            "spec.selector.name: 'elastic-deepctr-job  // Job Name' (in YAML a comment begins with #, not //) must "
            "be lower "
            "case letters, digits and '-', and begin and end with a letter or digit",
        ),
        (
            JOB_RESOURCE,
            {"spec.resource_updation.1.name": "elastic-deepctr-job-ps-0"},
            'spec.resource_updation[1].name: "elastic-deepctr-job-ps-0" is named twice; put its resources into one '
            "entry",
        ),
        (
            JOB_RESOURCE,
            {"spec.resource_updation.1.name": "other-ps-0"},
            'spec.resource_updation[1].name: "other-ps-0" is no pod of elastic-deepctr-job, whose names begin with '
            "elastic-deepctr-job-",
        ),
        (
            JOB_RESOURCE,
            {"spec.resource_updation.1.resource": {}},
            "spec.resource_updation[1].resource: names no resource; give cpu, memory, disk or gpu",
        ),
        (
            JOB_RESOURCE,
            {"spec.worker.resource.memory": "4096"},
            'spec.worker.resource.memory: "4096" has no unit: write 4096 for MiB, or 4096Mi',
        ),
        (
            JOB_RESOURCE,
            {"spec.worker.resource.cpu": -1},
            "spec.worker.resource.cpu: -1 is negative; a quantity of a resource is 0 or more",
        ),
    ],
)
def test_errors(sample: Data, changes: Data, message: str) -> None:
    assert found(varied(sample, **changes), "error") == [message]


def test_paths_as_text() -> None:
    assert path_text(("spec", "a", 0, "min-instance", "edl.dev/x", "")) == "spec.a[0].min-instance[edl.dev/x][]"
