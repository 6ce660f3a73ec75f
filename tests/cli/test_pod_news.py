"""Ends of pods as lines on the screen: each is told once, with the last words of the pod."""

from typing import Any

import pytest

from edl.cli.output.pod_news import PodNews


def pod(name: str = "j-worker-0", **more: Any) -> dict[str, Any]:
    status = {"phase": "Running"} | more.pop("status", {})
    return {"metadata": {"name": name, "uid": f"uid-{name}", **more}, "status": status}


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    end = {"exitCode": code, "reason": reason, "message": message}
    return pod(
        status={"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"state": {"terminated": end}}]}
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (ended(1, message="a\nb\n"), ["j-worker-0 failed (exit code 1)\n  | a\n  | b"]),
        (ended(137), ["j-worker-0 was killed (exit code 137)"]),
        (ended(137, "OOMKilled"), ["j-worker-0 was killed (exit code 137, OOMKilled)"]),
        (ended(0, "Completed"), []),
        (pod(status={"phase": "Failed", "reason": "Evicted"}), ["j-worker-0 was lost: Evicted"]),
        (pod(), []),
    ],
)
def test_an_end_is_told_once(found: dict[str, Any], said: list[str]) -> None:
    news = PodNews()
    assert news.of([pod()]) == []
    assert news.of([found]) == said
    assert news.of([found]) == []
    assert news.of([]) == ([] if said or found["status"]["phase"] == "Succeeded" else ["j-worker-0 is gone"])


def test_a_pod_that_was_asked_to_go_is_no_news() -> None:
    news = PodNews()
    news.of([pod(deletionTimestamp="2026-11-17T00:00:00Z")])
    assert news.of([]) == []


def test_only_the_last_lines_are_told() -> None:
    (line,) = PodNews().of([ended(1, message="\n".join(str(number) for number in range(100)))])
    assert line.splitlines()[1:] == [f"  | {number}" for number in range(94, 100)]
