"""Checks of a PyTorch ElasticJob beyond its types."""

from collections.abc import Iterator

from edl.api.kubernetes.pod_checks import template_problems
from edl.api.schema.problem import Problem, warning
from edl.jobs.core.validation import size_problems, template_warnings
from edl.jobs.pytorch.types import RUN_POLICY, ElasticJob, ElasticJobSpec, RunPolicy


def problems(written: ElasticJob, job: ElasticJob) -> Iterator[Problem]:
    """`job` is the same one with its defaults."""
    spec = job.spec
    yield from _run_policies(spec)
    yield from _scheduling_policy(spec)
    if spec.replica_specs.worker.restart_policy == "ExitCode":
        yield warning(
            ("spec", "replicaSpecs", "Worker", "restartPolicy"),
            "ExitCode replaces only workers that exit with 128 to 255 (killed by a signal); a script that raises exits "
            "with 1, and its worker is not replaced; OnFailure replaces those, too",
        )
    if spec.replica_specs.worker.restart_policy == "Always":
        yield warning(
            ("spec", "replicaSpecs", "Worker", "restartPolicy"),
            "Always starts workers again that finished well: the job never succeeds by itself; OnFailure does",
        )
    at = ("spec", "replicaSpecs", "Worker", "template")
    template = spec.replica_specs.worker.template
    yield from template_problems(template, at)
    yield from template_warnings(template, at)
    yield from size_problems(job.metadata, spec.min_replicas, spec.max_replicas)
    if spec.rdzv_endpoint is not None and (problem := _endpoint_problem(spec.rdzv_endpoint)):
        yield Problem(("spec", "rdzvEndpoint"), problem)


def _run_policies(spec: ElasticJobSpec) -> Iterator[Problem]:
    """Said in two places is fine, if both say the same. `spec` is defaulted: it holds what counts."""
    for place, policy in (("runPolicy", spec.run_policy), ("RunPolicy", spec.first_run_policy)):
        for attribute, name in zip(RUN_POLICY, RunPolicy.__struct_encode_fields__, strict=True):
            said, counts = getattr(policy, attribute, None), getattr(spec, attribute)
            if said is not None and said != counts:
                yield Problem(("spec", place, name), f"is not what another place says ({counts}); remove one of them")


def _scheduling_policy(spec: ElasticJobSpec) -> Iterator[Problem]:
    policy = spec.scheduling_policy
    if policy is None:
        return
    at = ("spec", "schedulingPolicy")
    if policy.min_available not in (None, spec.min_replicas):
        yield warning(
            (*at, "minAvailable"),
            f"{policy.min_available} is not used: minReplicas, {spec.min_replicas}, workers start together",
        )
    for name, value in (("queue", policy.queue), ("minResources", policy.min_resources)):
        if value is not None:
            yield warning((*at, name), "is not used: EDL has one queue, and the template says what pods need")


def _endpoint_problem(endpoint: str) -> str | None:
    host, colon, port = endpoint.rpartition(":")
    if any(character.isspace() for character in endpoint) or not (host if colon else endpoint):
        return f'"{endpoint[:60]}": wants host:port'
    if colon and not endpoint.endswith("]") and not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
        return f'"{endpoint[:60]}": the port must be 1 to 65535'
    return None
