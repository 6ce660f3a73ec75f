"""Brain as it is installed: where its history is kept, how it starts, and the Secret that it shares with operators."""

import asyncio
import base64
import contextlib
import functools
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.brain.client import BrainClient, BrainRefusalError
from edl.brain.tokens import READER, subject_of
from edl.cli.main import main
from edl.install.brain import HOME, PROOF
from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.kube.rest.client import Client
from edl.operator.brain import ensure_brain_secret, own_brain
from edl.operator.credentials.identity import LIFETIME, RENEW_BEFORE, Identity, load_identity
from edl.operator.resources import NAMESPACES, SECRETS
from edl.operator.settings import BRAIN, BRAIN_PORT, NAMESPACE, READER_TOKEN
from edl.protocol.brain import Beginning
from edl.protocol.job_facts import Features
from tests.install.guard import Guard
from tests.install.test_permissions import LOCAL, prepared
from tests.operator.stage import Stage, Wire, stage
from tests.operator.test_job_service_host import Pod

Data = dict[str, Any]


def objects(choices: InstallOptions) -> dict[str, Data]:
    return {body["kind"]: body for body in manifests(choices) if body["metadata"]["name"] == BRAIN}


def pod(choices: InstallOptions) -> Data:
    found: Data = objects(choices)["Deployment"]["spec"]["template"]["spec"]
    return found


def history(choices: InstallOptions) -> Data:
    (volume,) = [volume for volume in pod(choices)["volumes"] if volume["name"] == "history"]
    return {kind: variables for kind, variables in volume.items() if kind != "name"}


@pytest.mark.parametrize(
    ("choices", "kept", "claimed"),
    [
        (InstallOptions(), {"persistentVolumeClaim": {"claimName": BRAIN}}, "1Gi"),
        (InstallOptions(brain_storage=""), {"emptyDir": {}}, None),
        (InstallOptions(brain_database="pg"), {"emptyDir": {}}, None),
    ],
    ids=["claim", "with the pod", "PostgreSQL"],
)
def test_its_history_lasts_where_it_is_told_to(choices: InstallOptions, kept: Data, claimed: str | None) -> None:
    claim = objects(choices).get("PersistentVolumeClaim", {})
    assert history(choices) == kept
    assert claim.get("spec", {}).get("resources", {}).get("requests", {}).get("storage") == claimed
    variables = [one for one in pod(choices)["containers"][0]["env"] if one["name"] == "EDL_BRAIN_DATABASE"]
    reference = {"secretKeyRef": {"name": "pg", "key": "url"}}
    assert variables == ([{"name": "EDL_BRAIN_DATABASE", "valueFrom": reference}] if choices.brain_database else [])


def test_it_can_be_left_out_and_prints_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--no-brain"]) == 0
    named = [body["kind"] for body in yaml.safe_load_all(capsys.readouterr().out) if BRAIN in str(body)]
    assert named == ["Role", "ValidatingAdmissionPolicy"]  # the operator's right to its Secret
    assert main(["install", "--brain-storage", "5Gi", "-n", "ml"]) == 0
    made = list(yaml.safe_load_all(capsys.readouterr().out))
    assert "Secret" not in {body["kind"] for body in made}
    assert made == manifests(InstallOptions(namespace="ml", brain_storage="5Gi"))


def test_it_has_no_right_and_its_service_leads_to_it() -> None:
    made = objects(InstallOptions())
    template = made["Deployment"]["spec"]["template"]
    assert template["spec"]["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in template["spec"]
    assert made["Service"]["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert container["ports"][0]["name"] == made["Service"]["spec"]["ports"][0]["targetPort"]
    assert {container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")} == {
        "HTTPS"
    }


async def named(scene: Stage) -> Identity:
    await scene.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return await load_identity(scene.client, NAMESPACE, "s", ["localhost"])


async def proof(client: Client) -> dict[str, bytes]:
    found = await client.get(SECRETS, BRAIN, namespace=NAMESPACE)
    return {name: base64.b64decode(value) for name, value in found["data"].items()}


async def test_the_secret_is_made_once_renewed_in_time_and_mended() -> None:
    async with stage() as scene:
        client, identity = scene.client, await named(scene)
        assert await ensure_brain_secret(client, identity, NAMESPACE)
        first = await proof(client)
        assert not await ensure_brain_secret(client, identity, NAMESPACE)
        assert subject_of(first["key"], first[READER_TOKEN].decode(), 0.0) == READER
        late = datetime.now(UTC) + LIFETIME - RENEW_BEFORE + timedelta(days=1)
        assert await ensure_brain_secret(client, identity, NAMESPACE, now=late)
        renewed = await proof(client)
        assert renewed["tls.crt"] != first["tls.crt"]
        assert (renewed["key"], renewed["ca.crt"]) == (first["key"], identity.ca.encode()), "tokens stay good"
        for spoilt in ({"tls.crt": "cnViYmlzaA=="}, {"key": "cnViYmlzaA=="}):
            await client.patch(SECRETS, BRAIN, {"data": spoilt}, namespace=NAMESPACE)
            assert await ensure_brain_secret(client, identity, NAMESPACE), "what somebody broke is mended"
        await client.delete(SECRETS, "s", namespace=NAMESPACE)
        another = await load_identity(client, NAMESPACE, "s", ["localhost"])
        assert await ensure_brain_secret(client, another, NAMESPACE), "a new installation has a new key"
        assert (await proof(client))["key"] == own_brain(another, NAMESPACE).key != first["key"]


async def test_what_trainers_are_told_opens_a_brain_that_runs_as_its_pod_does(tmp_path: Path) -> None:
    """Operators make the Secret within their rights; the Brain has the very arguments and environment of its pod, with
    the pod's directories in ours; what the job service tells a pod of the job is all that is needed to ask it."""
    async with stage() as scene:
        await prepared(scene)
        guard = Guard(scene.transport())
        async with scene.operator(Wire(guard), service=LOCAL, register_crds=False, own_brain=True):
            await scene.submit("j", pserver=None, trainer={"min-instance": 1, "max-instance": 1})
            await scene.until_phase("running", "j")
            status, variables = await (await Pod.of(scene, "j-trainer-0")).call("GET", "/brain")
            uid = (await scene.job("j"))["metadata"]["uid"]
        secret = await proof(scene.client)
        assert guard.refused == []
    assert (status, variables["url"]) == (200, f"https://{BRAIN}.{NAMESPACE}.svc:{BRAIN_PORT}")
    for name, value in secret.items():
        (tmp_path / name).write_bytes(value)
    async with running(tmp_path) as port:
        client = BrainClient(f"https://localhost:{port}", variables["token"], ca=variables["ca"], timeout=30)
        answer = await asyncio.to_thread(
            client.begin, f"default/j/{uid}", Beginning(Features(program="python train.py"))
        )
        assert answer.plan is not None
        assert answer.plan.rule == "start-cold"
        assert (tmp_path / "data" / "brain.db").exists()
        with pytest.raises(BrainRefusalError, match="403 foreign"):
            await asyncio.to_thread(client.begin, "default/other/u", Beginning(Features()))


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[int]:
    (container,) = pod(InstallOptions())["containers"]
    with socket.create_server(("127.0.0.1", 0)) as free:  # the same port on every address, which 0 would not be
        port = free.getsockname()[1]
    places = {PROOF: str(folder), HOME: str(folder / "data"), f"--listen=:{BRAIN_PORT}": f"--listen=:{port}"}

    def here(text: str) -> str:
        return functools.reduce(lambda words, place: words.replace(place, places[place]), places, text)

    env = {one["name"]: here(one["value"]) for one in container["env"]}
    words = [sys.executable, "-m", "edl.cli.main", *map(here, container["args"])]
    process = await asyncio.create_subprocess_exec(
        *words, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        assert (await process.stdout.readline()).startswith(b"brain: https://")
        yield port
    finally:
        process.terminate()
        assert await process.wait() == 0
