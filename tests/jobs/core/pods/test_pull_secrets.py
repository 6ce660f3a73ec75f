"""Secrets that EDL's image is fetched with: for pods that run it and name none."""

from typing import Any

import pytest

from edl.api.job_view import Installation
from edl.jobs.core.pods.pull_secrets import fetched_with

OWN = Installation(image="edl:1", pull_secrets=("one", "two"))
Data = dict[str, Any]


def spec(image: str, **more: Any) -> Data:
    return {"containers": [{"name": "main", "image": image}], **more}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (spec("edl:1"), ["one", "two"]),
        (spec("user:1"), []),
        (spec("user:1", initContainers=[{"name": "first", "image": "edl:1"}]), ["one", "two"]),
        (spec("edl:1", imagePullSecrets=[{"name": "own"}]), ["own"]),
        (
            spec("user:1", initContainers=[{"name": "f", "image": "edl:1"}], imagePullSecrets=[{"name": "own"}]),
            ["own", "one", "two"],
        ),
    ],
    ids=["EDL's image", "the user's", "EDL's in the beginning", "the job's own", "the job's own for its own image"],
)
def test_pods_of_our_image_get_the_installations_secrets(given: Data, names: list[str]) -> None:
    found = fetched_with(given, OWN)
    assert [one["name"] for one in found.get("imagePullSecrets", [])] == names
    assert fetched_with(given, Installation(image="edl:1")) == given
