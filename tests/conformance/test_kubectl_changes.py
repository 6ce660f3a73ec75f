"""kubectl's commands that change objects, and those about the server, against an API server alone."""

import re
from pathlib import Path

import pytest
import yaml

from edl.api.kubernetes.version import newest_minor
from tests.conformance.kubectl import Kubectl
from tests.conformance.samples import GADGETS, config, definition, gadget, made, pod, workload

pytestmark = pytest.mark.may_skip("kubectl is neither on PATH nor in the tool cache")


DEPLOYMENT = workload("Deployment", replicas=2)


def test_edit(k: Kubectl, tmp_path: Path) -> None:
    k("create", "configmap", "c", "--from-literal=a=before")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/before/after/ "$1"\n')
    editor.chmod(0o755)
    assert k("edit", "configmap", "c", KUBE_EDITOR=str(editor)).out == "configmap/c edited\n"
    assert k.get("cm", "c")["data"] == {"a": "after"}


def test_patch_types(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    change = '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"x:2"}]}}}}'
    assert k("patch", "deployment", "w", "-p", change).out == "deployment.apps/w patched\n"
    assert k("patch", "deployment", "w", "-p", change).out == "deployment.apps/w patched (no change)\n"
    k("patch", "deployment", "w", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    k("patch", "deployment", "w", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":4}]')
    assert k.get("deployment", "w")["spec"]["replicas"] == 4
    k("patch", "deployment", "w", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":4}}')
    assert k.get("deployment", "w")["status"]["replicas"] == 4


def test_label_and_annotate(k: Kubectl) -> None:
    k("create", "configmap", "c")
    assert k("label", "cm", "c", "a=b").out == "configmap/c labeled\n"
    refused = k.run("label", "cm", "c", "a=c")
    assert refused.code == 1
    assert "--overwrite" in refused.err
    k("label", "cm", "c", "a=c", "--overwrite")
    assert k("label", "cm", "c", "a-").out == "configmap/c unlabeled\n"
    assert k("annotate", "cm", "c", "x=y").out == "configmap/c annotated\n"
    meta = k.get("cm", "c")["metadata"]
    assert (meta.get("labels"), meta["annotations"]) == (None, {"x": "y"})


def test_scale(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert k("scale", "deployment/w", "--replicas=5").out == "deployment.apps/w scaled\n"
    assert k.get("deployment", "w")["spec"]["replicas"] == 5
    refused = k.run("scale", "deployment/w", "--replicas=6", "--current-replicas=1")
    assert "Expected replicas to be 1, was 5" in refused.err


def test_replace(k: Kubectl) -> None:
    k("create", "configmap", "m", "--from-literal=a=1")
    assert k("replace", "-f", "-", stdin=config(b="2")).out == "configmap/m replaced\n"
    assert k.get("cm", "m")["data"] == {"b": "2"}
    before = k.get("cm", "m")["metadata"]["uid"]
    k("replace", "--force", "-f", "-", stdin=config(c="3"))
    assert k.get("cm", "m")["metadata"]["uid"] != before


def test_delete(k: Kubectl) -> None:
    for name in ("a", "b", "c"):
        k("apply", "-f", "-", stdin=config(name, {"x": "y"} if name != "c" else None))
    assert k("delete", "cm", "c").out.startswith('configmap "c" deleted')
    assert len(k("delete", "cm", "-l", "x=y").lines) == 2
    assert k.run("delete", "cm", "a").code == 1
    assert k("delete", "cm", "a", "--ignore-not-found").out == ""


@pytest.mark.parametrize(("cascade", "finalizers"), [("foreground", ["foregroundDeletion"]), ("orphan", ["orphan"])])
def test_delete_cascades(k: Kubectl, cascade: str, finalizers: list[str]) -> None:
    k("apply", "-f", "-", stdin=workload("ReplicaSet", replicas=0))
    k("delete", "rs", "w", f"--cascade={cascade}", "--wait=false")
    assert k.get("rs", "w")["metadata"]["finalizers"] == finalizers
    k("patch", "rs", "w", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_delete_waits_for_finalizers(k: Kubectl) -> None:
    held = config("h")
    held["metadata"]["finalizers"] = ["a.b/c"]
    k("apply", "-f", "-", stdin=held)
    deleting = k.start("delete", "cm", "h")
    try:
        k("wait", "cm", "h", "--for=jsonpath={.metadata.deletionGracePeriodSeconds}=0", "--timeout=30s")
        assert deleting.poll() is None
        k("patch", "cm", "h", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert deleting.wait(30) == 0
    finally:
        deleting.kill()
        deleting.communicate()


def test_wait(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    late = k.run("wait", "deployment", "w", "--for=condition=Available", "--timeout=1s")
    assert (late.code, late.err.strip()) == (1, "error: timed out waiting for the condition on deployments/w")
    available = '{"status":{"conditions":[{"type":"Available","status":"True"}]}}'
    k("patch", "deployment", "w", "--subresource=status", "--type=merge", "-p", available)
    assert k("wait", "deployment", "w", "--for=condition=Available").out == "deployment.apps/w condition met\n"
    assert k("wait", "deployment", "w", "--for=jsonpath={.spec.replicas}=2").out == "deployment.apps/w condition met\n"
    k("delete", "deployment", "w")
    assert k("wait", "deployment", "w", "--for=delete").code == 0


def test_run_and_dry_run(k: Kubectl) -> None:
    shown = yaml.safe_load(k("run", "p", "--image=i", "--dry-run=client", "-o", "yaml").out)
    assert shown["spec"]["containers"][0]["image"] == "i"
    assert k("run", "p", "--image=i", "--dry-run=server").out == "pod/p created (server dry run)\n"
    assert k("get", "pods").out == ""
    assert k("run", "p", "--image=i", "--restart=Never", "--", "sleep", "9").out == "pod/p created\n"
    assert k.get("pod", "p")["spec"]["containers"][0]["args"] == ["sleep", "9"]


def test_cordon_taint_uncordon(k: Kubectl) -> None:
    name = f"{k.namespace}-node"
    k("create", "-f", "-", stdin=made("Node", name))
    assert k("cordon", name).out == f"node/{name} cordoned\n"
    assert k.get("node", name)["spec"]["unschedulable"] is True
    assert "SchedulingDisabled" in k("get", "node", name).out
    assert k("taint", "node", name, "a=b:NoExecute").out == f"node/{name} tainted\n"
    assert {"key": "a", "value": "b", "effect": "NoExecute"} in k.get("node", name)["spec"]["taints"]
    assert k("taint", "node", name, "a-").out == f"node/{name} untainted\n"
    k("uncordon", name)
    assert "unschedulable" not in k.get("node", name)["spec"]
    k("label", "node", name, "zone=x")
    k("delete", "node", name)


def test_explain(k: Kubectl) -> None:
    text = k("explain", "pod.spec.containers.resources").out
    assert "KIND:       Pod" in text
    assert re.search(r"FIELD: resources <ResourceRequirements>", text)
    assert re.search(r"limits\s+<map\[string\]Quantity>", text) or re.search(r"limits\s+<map\[string\]\S+>", text)
    deep = k("explain", "deployment.spec.template.spec.tolerations", "--recursive").out
    assert re.search(r"tolerationSeconds\s+<integer>", deep)
    assert 'field "nonsense" does not exist' in k.run("explain", "pod.nonsense").err
    assert re.search(r"restartPolicy\s+<string>\n\s+enum: Always, Never, OnFailure", k("explain", "pod.spec").out)


def test_api_resources_and_versions(k: Kubectl) -> None:
    rows = {row[0]: row for row in k("api-resources", "--no-headers", "--api-group=apps").rows}
    assert rows["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert "pods" in k("api-resources", "-o", "name", "--verbs=watch").lines
    assert {"v1", "apps/v1", "batch/v1"} <= set(k("api-versions").lines)
    assert f"Server Version: v{newest_minor()}" in k("version").out


def test_auth(k: Kubectl) -> None:
    assert k("auth", "can-i", "create", "pods").out == "yes\n"
    assert "Username" in k("auth", "whoami").out
    assert k("create", "token", "default").out.count(".") == 2


def test_events(k: Kubectl) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": k.namespace}
    event = made(
        "Event",
        "e",
        involvedObject=about,
        reason="Because",
        message="it did",
        type="Warning",
        lastTimestamp="2026-01-01T00:00:00Z",
    )
    k("create", "-f", "-", stdin=event)
    assert k("events").rows[1][1:] == ["Warning", "Because", "Pod/p", "it", "did"]
    assert k("events", "--for=pod/other").err.startswith("No events found")
    assert k("get", "events").rows[1][1:4] == ["Warning", "Because", "pod/p"]
    assert k("events", "--types=Normal").err.startswith("No events found")


def test_custom_resources(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=definition(GADGETS))
    k("wait", f"crd/gadgets.{GADGETS}", "--for=condition=Established", "--timeout=30s")
    assert k("apply", "-f", "-", stdin=gadget(replicas=2)).out == f"gadget.{GADGETS}/g created\n"
    header, row = k("get", "gadgets").rows
    assert (header, row[:2]) == (["NAME", "SIZE", "AGE"], ["g", "2"])
    assert k("get", "gga", "-o", "wide").rows[1][2] == "a"
    assert k("scale", "gadget", "g", "--replicas=3").out == f"gadget.{GADGETS}/g scaled\n"
    assert k.get("gadget", "g")["spec"]["replicas"] == 3
    refused = k.run("apply", "-f", "-", stdin=gadget(replicas=9))
    assert "spec.replicas in body should be less than or equal to 5" in refused.err
    unknown = k.run("apply", "-f", "-", stdin=gadget(foo=1))
    assert 'unknown field "spec.foo"' in unknown.err
    strategic = k.run("patch", "gadget", "g", "-p", '{"spec":{"replicas":1}}')
    assert "strategic merge patch is not supported" in strategic.err or "unknown format" in strategic.err
    text = k("explain", "gadget.spec").out
    assert re.search(r"replicas\s+<integer> -required-", text)
    assert re.search(r"Size|Spec:\n", k("describe", "gadget", "g").out)
    assert k("delete", "gadget", "g").out.startswith(f'gadget.{GADGETS} "g" deleted')


def test_token_is_required(k: Kubectl, tmp_path: Path) -> None:
    config_ = yaml.safe_load(Path(k.kubeconfig).read_text())
    config_["users"][0]["user"] = {"token": "wrong"}
    (tmp_path / "wrong").write_text(yaml.safe_dump(config_))
    stranger = Kubectl(k.binary, str(tmp_path / "wrong"), k.home)
    refused = stranger.run("get", "pods")
    assert refused.code == 1
    assert "Unauthorized" in refused.err or "must be logged in" in refused.err


def test_logs_and_exec_need_a_node(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=pod("p", automountServiceAccountToken=False))
    refused = k.run("exec", "p", "--", "ls")
    assert refused.code == 1
    assert "does not have a host assigned" in refused.err
    assert k("logs", "p").out == ""


def test_rollout_history_and_restart(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert k("rollout", "restart", "deployment/w").out == "deployment.apps/w restarted\n"
    notes = k.get("deployment", "w")["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in notes
    assert k("rollout", "pause", "deployment/w").out == "deployment.apps/w paused\n"
    assert k.get("deployment", "w")["spec"]["paused"] is True


def test_expose_and_set(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert k("expose", "deployment", "w", "--port=80").out == "service/w exposed\n"
    assert k.get("service", "w")["spec"]["selector"] == {"app": "a"}
    assert k("set", "image", "deployment/w", "c=z:9").out == "deployment.apps/w image updated\n"
    assert k("set", "resources", "deployment/w", "--limits=cpu=2").code == 0
    found = k.get("deployment", "w")["spec"]["template"]["spec"]["containers"][0]
    assert (found["image"], found["resources"]) == ("z:9", {"limits": {"cpu": "2"}})
