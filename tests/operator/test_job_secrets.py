"""Secrets of jobs: made without being read, renewed where they are ours, left alone where they are not."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edl.jobs.core.actions import Create
from edl.operator.reconcile.action_runner import ActionResults, ActionRunner
from edl.operator.resources import NAMESPACES, SECRETS, TRAINING_JOBS
from tests.operator.stage import Stage, stage

SPACE = "ns"  # nothing is collected there: the owners are not
OWNER = {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "name": "j", "uid": "uid-1", "controller": True}


@asynccontextmanager
async def own_space() -> AsyncIterator[Stage]:
    async with stage() as scene:
        await scene.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        yield scene


def secret(ca: str, uid: str = "uid-1", **more: Any) -> Create:
    metadata = {"name": "s", "namespace": SPACE, "ownerReferences": [{**OWNER, "uid": uid}]}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "t", "ca.crt": ca}}
    return Create("Secret", "s", {**body, **more})


async def run(scene: Stage, action: Create) -> ActionResults:
    return await ActionRunner(scene.client, TRAINING_JOBS).run([action], namespace=SPACE)


async def said(scene: Stage) -> dict[str, str]:
    found = await scene.client.get(SECRETS, "s", namespace=SPACE)
    return {name: base64.b64decode(value).decode() for name, value in found["data"].items()}


@pytest.mark.case("attack-3")
async def test_a_job_s_secret_follows_when_key_or_authority_were_replaced() -> None:
    async with own_space() as scene:
        await run(scene, secret("old"))
        results = await run(scene, secret("new"))
        assert results.made == {("Secret", "s")}
        assert await said(scene) == {"token": "t", "ca.crt": "new"}


async def test_one_that_says_what_it_should_is_not_written() -> None:
    async with own_space() as scene:
        await run(scene, secret("same"))
        before = await scene.client.get(SECRETS, "s", namespace=SPACE)
        assert (await run(scene, secret("same"))).made == {("Secret", "s")}
        assert await scene.client.get(SECRETS, "s", namespace=SPACE) == before


async def test_an_immutable_one_is_only_looked_at() -> None:
    async with own_space() as scene:
        await run(scene, secret("old", immutable=True))
        assert (await run(scene, secret("new", immutable=True))).made == {("Secret", "s")}
        assert (await said(scene))["ca.crt"] == "old"


@pytest.mark.case("attack-2")
async def test_somebody_else_s_is_left_alone() -> None:
    """Also one of an earlier job of the name, and one that bears no owner at all."""
    async with own_space() as scene:
        for metadata in ({"name": "s", "labels": {"edl.dev/job-uid": "uid-1"}}, secret("x", "uid-0").body["metadata"]):
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"theirs": "yes"}}
            await scene.client.create(SECRETS, body, namespace=SPACE)
            results = await run(scene, secret("new"))
            assert not results.made
            assert [refusal.foreign for refusal in results.refusals] == [True]
            assert await said(scene) == {"theirs": "yes"}
            await scene.client.delete(SECRETS, "s", namespace=SPACE)
