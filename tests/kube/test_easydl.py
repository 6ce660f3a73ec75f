"""EasyDL on a real API server with EDL installed: what it refuses."""

from pathlib import Path

import pytest
import yaml

from tests.kube.cluster.kubectl import Kubectl, KubectlError

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_designs_own_slip_is_refused(installed: Kubectl, namespace: Kubectl) -> None:
    plan = yaml.safe_load((EXAMPLES / "easydl-jobresource.yaml").read_text())
    plan["spec"]["selector"]["name"] += "  // Job Name"
    with pytest.raises(KubectlError, match=r"spec.selector.name"):
        namespace.apply(plan)
