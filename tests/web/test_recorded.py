"""The page of a recording: a simulated week, without a cluster to ask. By the command, in its own process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.cli.main import main
from edl.cli.output.recording import KIND_NAME
from tests.web.recorded_page import Page, served_recording


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with served_recording(tmp_path_factory.mktemp("recorded")) as address:
        yield Page(address)


def test_it_says_that_it_is_a_recording(page: Page) -> None:
    session = page.get("session")
    assert (session["recorded"], session["actions"], session["cluster"]) == ("week.db", False, True)


def test_every_job_is_there_with_sizes_reasons_and_account(page: Page) -> None:
    rows = page.get("past")["rows"]
    assert len(rows) == 40
    assert {row["state"] for row in rows} == {"succeeded"}
    assert page.get("jobs")["rows"] == []
    for row in rows[:5]:
        job = page.get(f"jobs/{KIND_NAME}/{row['namespace']}/{row['name']}")
        assert job["decisions"]
        assert all(one["reason"] for one in job["decisions"])
        assert max(size for size in job["points"]["now"] if size is not None) >= 1
        assert {one["use"] for one in job["account"]} >= {"starting", "training"}
        assert "recording" in job["advice"][0]["message"]
        assert "simulated:" in page.get(f"jobs/{KIND_NAME}/{row['namespace']}/{row['name']}/manifest")["yaml"]


def test_the_cluster_is_shown_over_time_with_what_was_free_in_vain(page: Page) -> None:
    view = page.get("cluster")
    assert 5 < len(view["samples"]) <= 500
    assert view["capacity"][2] == pytest.approx(8)
    assert 0 < view["jobs"][2] <= 8
    assert any(sample["holders"] for sample in view["samples"])
    assert view["counts"] == {"succeeded": 40}
    assert view["shares"][0]["note"].startswith("40 jobs, waited")
    assert view["queue"], "somebody had to wait on two nodes"
    assert all(row["reason"].startswith("waited") for row in view["queue"])


def test_what_only_a_cluster_has_is_refused_as_such(page: Page) -> None:
    status, said = page.ask("GET", "plan")
    assert (status, said["code"]) == (404, "not-found")
    name = page.get("past")["rows"][0]["name"]
    job = f"jobs/{KIND_NAME}/default/{name}"
    assert page.ask("DELETE", job)[0] == 403
    assert page.ask("GET", f"jobs/{KIND_NAME}/default/nobody")[0] == 404
    assert page.ask("GET", f"{job}/pods/any/log")[0] == 404


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--history", str(tmp_path / "absent.db")]) != 0
    assert "there is no such file" in capsys.readouterr().err
    strange = tmp_path / "strange.db"
    strange.write_text("this is no database, and it is long enough to be looked at" * 50)
    assert main(["web", "--history", str(strange)]) != 0
    assert "strange.db" in capsys.readouterr().err
    assert strange.read_text().startswith("this is no database")
