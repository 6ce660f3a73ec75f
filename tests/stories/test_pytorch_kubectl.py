"""ElasticJobs through kubectl and edl: the very commands of design 004, beside the other kind of that name."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.kubectl import Kubectl, program
from tests.stories.elastic import Elastic
from tests.stories.story import OBEDIENT, Story

pytestmark = pytest.mark.may_skip("kubectl is neither on PATH nor in the tool cache")


@pytest.fixture
def elastic(story: Story) -> Elastic:
    return Elastic(story)


@pytest.fixture
def kubectl(story: Story, tmp_path: Path) -> Kubectl:
    binary = program()
    if binary is None:
        pytest.skip("no kubectl")
    return Kubectl(binary, str(story.backend.kubeconfig), tmp_path, story.namespace)


async def said(kubectl: Kubectl, *words: str) -> str:
    """Without holding up the operator, which runs in this process."""
    done = await asyncio.to_thread(kubectl.run, *words)
    assert done.code == 0, done.err
    return done.out


async def test_kubectl_describe_shows_what_the_design_shows(elastic: Elastic, kubectl: Kubectl) -> None:
    script = 'test "$EDL_INDEX" = 2 && sleep 100; sleep 2; exit 1'  # two run at once, also where pods start slowly
    manifest = elastic.manifest(script, 2, 3, policy="ExitCode", name="classy-vision-job")
    manifest["spec"]["replicaSpecs"]["Worker"]["replicas"] = 3
    await elastic.create(manifest)
    await elastic.until_phase("Failed", "classy-vision-job")

    async def reported() -> str:
        described = await said(kubectl, "describe", "elasticjob", "classy-vision-job")
        return described if "ElasticJobFailed  " in described and "Active:  1" in described else ""

    found: str = await elastic.until(
        reported, "the end is among the events, and the third, which may start last, runs on"
    )
    words = [" ".join(line.split()) for line in found.splitlines()]
    for wanted in (
        "API Version: elastic.pytorch.org/v1alpha1",
        "Message: job classy-vision-job is created.",
        "Reason: ElasticJobCreated",
        "Message: ElasticJob classy-vision-job is running.",
        "Message: ElasticJob classy-vision-job is failed because 2 Worker replica(s) failed.",
        "Active: 1",
        "Failed: 2",
    ):
        assert wanted in words, found
    events = words[words.index("Type Reason Age From Message") :]
    for kind, reason, message in (
        ("Normal", "SuccessfulCreatePod", "Created pod: classy-vision-job-worker-0"),
        ("Normal", "SuccessfulCreateService", "Created service: classy-vision-job-worker-1"),
        ("Normal", "ExitedWithCode", f"Pod: {elastic.namespace}.classy-vision-job-worker-0 exited with code 1"),
        ("Normal", "ElasticJobFailed", "is failed because 2 Worker replica(s) failed."),
    ):
        line = next(one for one in events if one.startswith(f"{kind} {reason}") and message in one)
        assert "elastic-job-controller" in line
    assert (await said(kubectl, "logs", "classy-vision-job-worker-0")) == "", "pods are kept"


async def test_kubectl_waits_scales_and_lists(elastic: Elastic, kubectl: Kubectl) -> None:
    await elastic.submit(OBEDIENT, 1, 3, notes={"edl.dev/pin": "true"})
    await said(kubectl, "wait", "--for=condition=Running", "elasticjob/j", "--timeout=60s")
    assert "scaled" in await said(kubectl, "scale", "elasticjob", "j", "--replicas=3")
    await elastic.until_running(3)
    refused = await asyncio.to_thread(kubectl.run, "scale", "elasticjob", "j", "--replicas=4")
    assert "maxReplicas" in refused.err
    listed = await said(kubectl, "get", "ptej")
    columns = ["NAME", "PHASE", "NOW", "TARGET", "MIN", "MAX", "PROGRESS", "ETA", "REASON", "AGE"]
    assert listed.splitlines()[0].split() == columns
    await said(kubectl, "delete", "elasticjob", "j")
    await elastic.until_running(0)


async def test_every_command_of_edl_knows_the_kind(elastic: Elastic) -> None:
    await elastic.submit("echo hello; " + OBEDIENT, 1, 3)
    await elastic.until_running(3)
    await elastic.until_phase("Running")
    assert "elasticjob/j" in await edl(elastic, "get")
    described = await edl(elastic, "describe", "ptej/j")
    assert "Size:     3 now, 3 granted, 1..3 allowed" in described
    assert "j-worker-2" in described
    assert "j-worker-1: hello" in await edl(elastic, "logs", "j")
    assert "stays at its present size" in await edl(elastic, "pause", "j")
    assert "SuccessfulCreatePod" in await edl(elastic, "events", "j")
    await edl(elastic, "resume", "j")
    await edl(elastic, "scale", "j", "2", "--pin")
    await elastic.until_running(2)
    assert "j" in await edl(elastic, "top")
    assert "deleted" in await edl(elastic, "delete", "j")
    await elastic.until_running(0)


async def edl(elastic: Elastic, *words: str) -> str:
    config = str(elastic.story.backend.kubeconfig)
    where = ["--kubeconfig", config, "-n", elastic.namespace]
    command = [sys.executable, "-m", "edl.cli.main", *words, *(where if words[0] != "top" else where[:2])]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
