"""The image runs where nothing is allowed: no privilege, no writable file system, nothing to build with."""

import json

import pytest

import edl
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest
from tests.tier_kube.manifests import pod

pytestmark = pytest.mark.kube
RESTRICTED: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
EXAMINE = """
import json, os, shutil, sys
import edl
def writable(path):
    try:
        open(os.path.join(path, "probe"), "w").close()
        return True
    except OSError:
        return False
print(json.dumps({
    "version": edl.__version__,
    "user": os.getuid(),
    "tools": [name for name in ("gcc", "cc", "make", "pip", "ld") if shutil.which(name)],
    "writable": [path for path in ("/", "/opt/edl", "/etc", "/tmp") if writable(path)],
    "edl": shutil.which("edl"),
}))
"""


def test_the_image_runs_restricted(namespace: Kubectl, image: str) -> None:
    namespace("label", "namespace", namespace.namespace, "pod-security.kubernetes.io/enforce=restricted")
    container = {"image": image, "command": ["python", "-c", EXAMINE], "securityContext": RESTRICTED}
    namespace.apply(pod("examine", container=container, restartPolicy="Never"))
    namespace("wait", "pod/examine", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    found = json.loads(namespace("logs", "examine"))

    assert found == {
        "version": edl.__version__,
        "user": 65532,
        "tools": [],
        "writable": [],
        "edl": "/opt/edl/bin/edl",
    }
