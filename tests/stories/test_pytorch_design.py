"""The manifest of design 004, with a real etcd where its rdzvEndpoint points and with none.

The workers are plain programs in the place of its image. They get its arguments, meet in etcd and finish. etcd is named
by its address: process nodes that have joined a real API server know no names of Services.
"""

import textwrap
from pathlib import Path

import pytest
import yaml

from edl.cli.connect.pod_environment import environment
from edl.embedded.node.supervisor.sandbox import best_mode
from edl.operator.resources import PODS, SERVICES
from tests.stories.elastic import Elastic
from tests.stories.story import Data, Story
from tests.tier_kube.cluster.cache import cache_root

ETCD_SERVICE: Data = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "etcd-service"},
    "spec": {"clusterIP": "None", "selector": {"app": "etcd"}, "ports": [{"port": 2379}]},
}
EXAMPLE = Path(__file__).parents[2] / "examples" / "pytorch-elasticjob.yaml"
MEET = textwrap.dedent("""
    import base64, json, os, sys, time, urllib.request

    def call(path, **body):
        url = f"http://{os.environ['RDZV_ENDPOINT']}/v3/kv/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        for _ in range(300):
            try:
                return json.load(urllib.request.urlopen(request, timeout=10))
            except OSError:  # it may not serve yet
                time.sleep(0.1)
        raise SystemExit("there is no etcd")

    def key(text):
        return base64.b64encode(text.encode()).decode()

    assert sys.argv[1].startswith("s3://"), sys.argv
    job, least = os.environ["JOB_ID"], int(os.environ["MIN_SIZE"])
    call("put", key=key(f"{job}/{os.environ['EDL_INDEX']}"), value=key("here"))
    while int(call("range", key=key(f"{job}/"), range_end=key(f"{job}0")).get("count", 0)) < least:
        time.sleep(0.1)
    print(os.environ["PET_RDZV_BACKEND"], "met at", os.environ["PET_RDZV_ENDPOINT"], flush=True)
""")


def etcd_program() -> Path | None:
    """The one that the kube tier has built."""
    return next(iter(sorted(cache_root().glob("tools/etcd-*/etcd"), reverse=True)), None)


@pytest.fixture
def elastic(story: Story) -> Elastic:
    return Elastic(story)


def example(elastic: Elastic, script: str) -> Data:
    manifest: Data = yaml.safe_load(EXAMPLE.read_text())
    container = manifest["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container |= {"image": elastic.story.backend.python, "command": ["python", "-c", script]}
    return manifest


async def serve_etcd(elastic: Elastic, program: Path, directory: Path, *options: str) -> str:
    """Returns where it listens."""
    address: Data = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    listens = "http://$(POD_IP):2379"
    peers = "http://$(POD_IP):2380"
    command = [
        str(program),
        f"--data-dir={directory}",
        f"--listen-client-urls={listens}",
        f"--advertise-client-urls={listens}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        *options,
    ]
    container = {"name": "etcd", "image": elastic.story.backend.shell, "command": command, "env": [address]}
    pod: Data = {"metadata": {"name": "etcd", "labels": {"app": "etcd"}}, "spec": {"containers": [container]}}
    pod["spec"]["terminationGracePeriodSeconds"] = 1
    await elastic.story.create(PODS, {"apiVersion": "v1", "kind": "Pod"} | pod)

    async def address_of() -> str:
        status = (await elastic.pod("etcd")).get("status", {})
        return str(status.get("podIP", "")) if status.get("phase") == "Running" else ""

    return f"{await elastic.until(address_of, 'etcd runs')}:2379"


@pytest.mark.case("acceptance-samples")
@pytest.mark.may_skip("etcd is not built yet: the kube tier does that")
async def test_the_designs_own_manifest_meets_in_a_real_etcd(
    elastic: Elastic, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """On the embedded cluster at the endpoint that it names."""
    program = etcd_program()
    if program is None:
        pytest.skip("no etcd")
    manifest, address = example(elastic, MEET), await serve_etcd(elastic, program, tmp_path / "etcd")
    if request.node.callspec.params["story"] == "embedded" and best_mode()[0] != "none":  # pods know names
        await elastic.story.create(SERVICES, ETCD_SERVICE)
    else:
        manifest["spec"]["rdzvEndpoint"] = address
    await elastic.create(manifest)
    status = await elastic.until_phase("Succeeded", "classy-vision-job")
    assert status["replicaStatuses"]["Worker"]["succeeded"] >= 2

    async def variables(pod: Data) -> dict[str, str]:
        return await environment(elastic.client, pod, elastic.namespace, secrets="classy-vision-job-")

    pods = (await elastic.client.list(PODS, namespace=elastic.namespace)).items
    workers = [pod for pod in pods if pod["metadata"]["name"].startswith("classy-vision-job-worker-")]
    assert {(await variables(pod))["PET_RDZV_BACKEND"] for pod in workers} == {"etcd"}


async def test_without_an_endpoint_edl_is_the_meeting_point(elastic: Elastic) -> None:
    script = "import os; assert os.environ['PET_RDZV_BACKEND'] == 'edl', os.environ; print(os.environ['PET_RDZV_ID'])"
    manifest = example(elastic, script)
    del manifest["spec"]["rdzvEndpoint"]
    await elastic.create(manifest)
    await elastic.until_phase("Succeeded", "classy-vision-job")
