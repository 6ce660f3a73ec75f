"""The few objects of Kubernetes itself that the tier's tests make by hand."""

import os
from typing import Any

from tests.tier_kube.cluster.kubectl import Manifest
from tests.tier_kube.cluster.tiny_image import TINY_IMAGE

# A cluster that is there lacks our image: any with busybox will do, such as busybox:1.37.
SHELL_IMAGE = os.environ.get("EDL_SHELL_IMAGE", TINY_IMAGE)


def pod(name: str, *, script: str = "sleep 3600", **spec: Any) -> Manifest:
    """A pod that runs a shell script in the tiny image; `spec` adds to the pod, `container` to its container."""
    container = {
        "name": "main",
        "image": SHELL_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
    }
    container |= spec.pop("container", {})
    labels = {"app": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]} | spec,
    }


def http_pod(name: str, **spec: Any) -> Manifest:
    """A pod that answers every GET on port 8080 with its own name."""
    return pod(name, script="mkdir /tmp/www; hostname > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www", **spec)


def service(name: str, *, app: str | None, headless: bool = False) -> Manifest:
    """A Service from port 80 to port 8080 of the pods labelled `app`; None = its endpoints are written by hand."""
    spec: Manifest = {"ports": [{"port": 80, "targetPort": 8080}]}
    spec |= {"selector": {"app": app}} if app else {}
    spec |= {"clusterIP": "None"} if headless else {}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def fetch(host: str, port: int = 80) -> str:
    """The shell command that prints the last line of a web page."""
    return f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {host} {port} | tail -n 1"
