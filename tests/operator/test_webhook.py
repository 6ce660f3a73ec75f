"""The webhook: what it refuses, what it lets pass, its answers to malformed requests, and its CA."""

import asyncio
import base64
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from edl.api.schema.problem import errors
from edl.certificates import Authority
from edl.install.options import InstallOptions
from edl.install.resources import resource_of
from edl.install.webhook import PATH as CONFIGURED_PATH
from edl.install.webhook import webhook as configuration
from edl.jobs.admission import check
from edl.kube.rest.client import Client
from edl.kube.rest.transport import Request, Response
from edl.operator import webhook
from edl.operator.webhook import CONFIGURATIONS, PATH, Webhook, review
from tests.api.samples import EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB, varied

Data = dict[str, Any]
ALL = {"TrainingJob": TRAINING_JOB, "PyTorch": PYTORCH_JOB, "EasyDL": EASYDL_JOB, "JobResource": JOB_RESOURCE}
AUTHORITY = Authority.create("test")
PAIR = AUTHORITY.issue("webhook", hosts=["127.0.0.1"])


@pytest.mark.parametrize("job", ALL.values(), ids=ALL)
def test_good_jobs_of_every_kind_pass(job: Data) -> None:
    answer = review({"uid": "7", "object": job})
    assert (answer["uid"], answer["allowed"]) == ("7", True)


@pytest.mark.parametrize("job", ALL.values(), ids=ALL)
def test_every_error_is_told_with_its_field(job: Data) -> None:
    bad = varied(job, **{"metadata.name": "Not_A_Name", "spec.surprise": 1})
    answer = review({"uid": "7", "object": bad})
    wrong = errors(check(bad).problems)

    assert not answer["allowed"]
    assert len(wrong) >= 2
    assert answer["status"]["message"] == "; ".join(map(str, wrong))
    assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == [one.path for one in wrong]
    assert (answer["status"]["code"], answer["status"]["reason"]) == (422, "Invalid")


def test_warnings_are_handed_on() -> None:
    risky = varied(TRAINING_JOB, **{"spec.fault_tolerant": False, "spec.trainer.max-instance": 6})
    answer = review({"uid": "7", "object": risky})
    assert answer["allowed"]
    assert any("fault_tolerant" in line for line in answer["warnings"])


def test_an_old_object_that_breaks_a_new_rule_can_still_be_labelled_and_finalized() -> None:
    old = varied(TRAINING_JOB, **{"spec.surprise": 1})
    assert review({"object": varied(old, **{"metadata.labels": {"a": "b"}}), "oldObject": old})["allowed"]
    assert review({"object": varied(old, **{"status": {"phase": "running"}}), "oldObject": old})["allowed"]
    assert not review({"object": varied(old, **{"spec.surprise": 2}), "oldObject": old})["allowed"]


@pytest.mark.parametrize("value", [None, 1, "text", [], {}, {"spec": 1}, {"kind": []}, {"metadata": []}])
def test_nonsense_is_answered(value: Any) -> None:
    assert "allowed" in review({"uid": "7", "object": value, "oldObject": value})
    assert "allowed" in review({"uid": "7", "object": value})


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


async def test_it_answers_over_tls_and_refuses_what_is_no_review() -> None:
    hook = Webhook(_client({}), address=("127.0.0.1", 0), tls=AUTHORITY.server_context(PAIR), name="w", ca="")
    trusted = AUTHORITY.client_context()
    async with hook.listening(), aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{hook.port}{PATH}"

        async def post(body: str) -> tuple[int, str]:
            async with session.post(url, data=body, ssl=trusted) as answer:
                return answer.status, await answer.text()

        status, text = await post(json.dumps({"request": {"uid": "7", "object": TRAINING_JOB}}))
        assert status == 200
        assert json.loads(text)["response"] == review({"uid": "7", "object": TRAINING_JOB})
        for nonsense in ("", "{", "[]", "{}", '{"request": 1}', deep(100_000)):
            status, text = await post(nonsense)
            assert (status, "wants an AdmissionReview" in text) == (400, True), nonsense[:20]
        nested = '{"request": {"uid": "7", "object": {"kind": "TrainingJob", "spec": ' + deep(500) + "}}}"
        assert (await post(nested))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.post(url, data="", ssl=ssl.create_default_context())


class Server:
    """The API server's part: one configuration, kept as a real one keeps it."""

    def __init__(self, found: Data) -> None:
        self.found, self.patches = found, 0

    async def request(self, request: Request) -> Response:
        if not self.found:
            return Response(404, b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": ""}', {})
        if request.method == "PATCH":
            self.patches += 1
            assert request.body is not None
            held, *changes = json.loads(request.body)
            assert held["value"] == self.found["metadata"]["resourceVersion"]
            for change in changes:
                index = int(change["path"].split("/")[2])
                self.found["webhooks"][index]["clientConfig"]["caBundle"] = change["value"]
        return Response(200, json.dumps(self.found).encode(), {})

    def stream(self, request: Request) -> Any:
        raise AssertionError("nothing is watched")

    async def close(self) -> None:
        return None


def _client(found: Data) -> Client:
    return Client(Server(found))


async def test_api_servers_are_told_once_whom_to_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    found = configuration(InstallOptions())
    found["metadata"]["resourceVersion"] = "5"
    server = Server(found)
    hook = Webhook(Client(server), address=("127.0.0.1", 0), tls=AUTHORITY.server_context(PAIR), name="w", ca="CA")
    assert await hook.install_ca()
    assert base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]) == b"CA"
    assert not await hook.install_ca()
    found["webhooks"][0]["clientConfig"].pop("caBundle")  # somebody replaced the manifest
    monkeypatch.setattr(webhook, "CA_CHECK_SECONDS", 0.0)
    task = asyncio.create_task(hook.keep_ca_installed())
    while "caBundle" not in found["webhooks"][0]["clientConfig"]:
        await asyncio.sleep(0)
    task.cancel()
    assert server.patches == 2


async def test_without_a_configuration_nobody_asks() -> None:
    hook = Webhook(_client({}), address=("127.0.0.1", 0), tls=AUTHORITY.server_context(PAIR), name="w", ca="CA")
    assert not await hook.install_ca()


def test_the_configuration_leads_to_it_and_is_forgiving() -> None:
    (hook,) = configuration(InstallOptions(namespace="ml"))["webhooks"]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert hook["clientConfig"]["service"]["path"] == CONFIGURED_PATH == PATH
    groups = {rule["apiGroups"][0] for rule in hook["rules"]}
    assert groups == {"paddlepaddle.org", "elastic.pytorch.org", "elastic.iml.github.io", "elastic.easydl.org"}


def test_every_example_passes() -> None:
    for file in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml")):
        for job in yaml.safe_load_all(file.read_text()):
            assert review({"object": job})["allowed"], file


def test_the_resource_is_the_one_that_is_installed() -> None:
    assert CONFIGURATIONS.api_version == configuration(InstallOptions())["apiVersion"]
    assert resource_of(configuration(InstallOptions())) == CONFIGURATIONS
