"""Properties of all kinds, over thousands of generated objects: nothing is lost, nothing drifts, nothing raises."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from edl.api.job_view import replicas_at
from edl.api.schema.problem import Problem
from edl.jobs.admission import check, check_edit, default
from edl.jobs.core.kind import Kind
from edl.jobs.crds import crd
from edl.jobs.decoding import decode
from edl.jobs.easydl.job_resource import JobResource
from edl.jobs.registry import EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB
from edl.jobs.views import view
from tests.api import samples
from tests.api.strategies import spoilt, valid

MANY = settings(
    max_examples=2000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def survives(kind: Kind, value: dict[str, Any]) -> None:
    """Encode and decode give the object back, defaulting is done once, and what is valid has a view."""
    value = {"apiVersion": kind.api_versions[-1], "kind": kind.name, **value}
    decoded = decode(value)
    assert decoded.problems == ()
    assert decoded.object is not None
    again = decode(msgspec.json.decode(msgspec.json.encode(decoded.object)))
    assert again.object == decoded.object
    defaulted = default(decoded.object)
    assert default(defaulted) == defaulted
    checked = check(value)
    assert checked.object is None or checked.object == defaulted
    assert check_edit(value, value) == ()
    if checked.object is not None and not isinstance(checked.object, JobResource):
        found = view(checked.object)
        assert 1 <= found.min <= found.start <= found.max
        assert all(replicas_at(role, found.max) <= role.max for role in found.roles)


def never_raises(sample: dict[str, Any], value: Any) -> None:
    checked = check(value)
    assert all(isinstance(problem, Problem) and problem.message for problem in checked.problems)
    assert (checked.object is None) == any(problem.severity == "error" for problem in checked.problems)
    assert all(len(str(problem)) < 1000 for problem in checked.problems)
    check_edit(sample, value)
    quick, slow = decode(value), decode(value | {"status": None}) if isinstance(value, dict) else decode(value)
    if isinstance(value, dict) and "status" not in value:
        assert (quick.object, quick.problems) == (slow.object, slow.problems), "both ways of decoding agree"


@MANY
@given(valid(TRAINING_JOB.type))
def test_a_valid_training_job_survives(value: dict[str, Any]) -> None:
    survives(TRAINING_JOB, value)


@MANY
@given(valid(PYTORCH_JOB.type))
def test_a_valid_pytorch_job_survives(value: dict[str, Any]) -> None:
    survives(PYTORCH_JOB, value)


@MANY
@given(valid(EASYDL_JOB.type))
def test_a_valid_easydl_job_survives(value: dict[str, Any]) -> None:
    survives(EASYDL_JOB, value)


@MANY
@given(valid(JOB_RESOURCE.type))
def test_a_valid_job_resource_survives(value: dict[str, Any]) -> None:
    survives(JOB_RESOURCE, value)


@MANY
@given(spoilt(samples.TRAINING_JOB))
def test_no_json_makes_a_training_job_raise(value: Any) -> None:
    never_raises(samples.TRAINING_JOB, value)


@MANY
@given(spoilt(samples.PYTORCH_JOB))
def test_no_json_makes_a_pytorch_job_raise(value: Any) -> None:
    never_raises(samples.PYTORCH_JOB, value)


@MANY
@given(spoilt(samples.EASYDL_JOB))
def test_no_json_makes_an_easydl_job_raise(value: Any) -> None:
    never_raises(samples.EASYDL_JOB, value)


@MANY
@given(spoilt(samples.JOB_RESOURCE))
def test_no_json_makes_a_job_resource_raise(value: Any) -> None:
    never_raises(samples.JOB_RESOURCE, value)


@pytest.mark.parametrize("kind", [TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB, JOB_RESOURCE], ids=lambda kind: kind.crd_name)
def test_crds_are_plain_data(kind: Kind) -> None:
    assert msgspec.json.decode(msgspec.json.encode(crd(kind))) == crd(kind)
