"""Escape sequences in what others wrote: shown, not obeyed."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from edl.cli.commands.cluster.doctor import _print
from edl.cli.commands.jobs.describe import render
from edl.cli.commands.jobs.logs import Printer
from edl.cli.commands.jobs.plan import _without_unit
from edl.cli.connect.jobs import summarize
from edl.cli.connect.pod_logs import LogLine
from edl.cli.errors import CommandError
from edl.cli.main import main
from edl.cli.output.live import JobSnapshot, PlainScreen, RichScreen
from edl.cli.output.tables import table
from edl.cli.output.terminal import harmless
from edl.doctor.finding import wrong
from edl.jobs.registry import TRAINING_JOB

EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202ed"
SHOWN = "a\\x1b]0;owned\\x07\\x1b[2Jb\\x9b31mc\\u202ed"


@pytest.mark.case("attack-low-terminal")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SHOWN),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("overwritten\rtext", "overwritten\\x0dtext"),
        ("größer ●▁█ 日本", "größer ●▁█ 日本"),
        ("", ""),
    ],
)
def test_what_a_terminal_would_act_upon_is_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.case("attack-low-terminal")
def test_tables_news_findings_and_errors_pass_that_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SHOWN in table(("REASON",), [(EVIL,)])
    PlainScreen().news("job", EVIL)
    _print([wrong("job", EVIL, EVIL)])

    def fail(given: list[str]) -> int:
        raise CommandError(EVIL)

    monkeypatch.setattr("edl.cli.main._run", fail)
    assert main([]) == 1
    written = capsys.readouterr()
    assert (written.out.count(SHOWN), written.err.count(SHOWN)) == (3, 1)
    assert not set("\x1b\x07\x9b\u202e") & set(written.out + written.err)


@pytest.mark.case("attack-low-terminal")
def test_log_lines_are_shown_in_a_terminal_and_untouched_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = LogLine("pod-0", "2026-01-01T00:00:00Z", EVIL)
    Printer(timestamps=False, several=True).line(line)
    assert capsys.readouterr().out == f"pod-0: {EVIL}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    Printer(timestamps=False, several=True).line(line)
    assert capsys.readouterr().out == f"pod-0: {SHOWN}\n"


def test_of_a_bar_that_is_drawn_over_a_terminal_shows_the_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\r 40%|####  | 12/30 [00:03<00:05]\r 43%|####  | 13/30 [00:03<00:05]"
    Printer(timestamps=False, several=False).line(LogLine("pod-0", "2026-01-01T00:00:00Z", text))
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    Printer(timestamps=False, several=False).line(LogLine("pod-0", "2026-01-01T00:00:00Z", text))
    assert capsys.readouterr().out == " 43%|####  | 13/30 [00:03<00:05]\n"


@pytest.mark.case("attack-low-terminal")
def test_the_view_that_renews_itself_shows_names_reasons_news_and_lines_harmless() -> None:
    written = io.StringIO()
    screen = RichScreen(Console(file=written, width=300, highlight=False, force_terminal=False))
    status = {"phase": EVIL, "scale_status": {"current": 1, "reason": EVIL}}
    named = {"metadata": {"name": EVIL, "namespace": "default", "uid": "u"}, "spec": {"trainer": {}}, "status": status}
    screen.news(EVIL, EVIL)
    screen.lines(EVIL, [EVIL])
    screen.show([JobSnapshot(summarize(TRAINING_JOB, named))])
    screen.close()
    assert written.getvalue().count(SHOWN) >= 5
    assert not set("\x1b\x07\x9b\u202e") & set(written.getvalue())


def test_descriptions_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    job = summarize(TRAINING_JOB, {
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": {"trainer": {"min-instance": 1, "max-instance": 2}},
        "status": {
            "phase": "running",
            "scale_status": {"current": 1, "reason": "word " * 60, "history": [{"to": 1, "reason": "x" * 200}]},
            "conditions": [{"type": "Ready", "status": "False", "message": "message " * 40}],
        },
    })  # fmt: skip
    shown = render(job, [], [], 0.0)
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert shown.count("word") == 60, "what is wrapped is whole"


def test_amounts_keep_their_unit_beside_a_larger_one() -> None:
    assert _without_unit("320 MiB memory", "32 GiB memory") == "320 MiB"
    assert _without_unit("16 GiB memory", "32 GiB memory") == "16"
    assert _without_unit("3 CPU", "8 CPU") == "3"
    assert _without_unit("1 GPU", "8 GPUs") == "1"


@pytest.mark.case("attack-low-terminal")
def test_findings_in_a_manifest_of_somebody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML holds any character by its number, and what a refusal quotes is the file's."""
    written = "a\\x1b]0;owned\\x07\\x9b31m\\u202eb"
    manifest = tmp_path / "job.yaml"
    lines = ["apiVersion: paddlepaddle.org/v1", "kind: TrainingJob", f'metadata: {{name: "{written}"}}',
             f'spec: {{"{written}": 1, image: "{written}", trainer: {{min-instance: "{written}"}}}}']  # fmt: skip
    manifest.write_text("\n".join(lines) + "\n")
    assert main(["validate", "-f", str(manifest)]) == 1
    assert main(["submit", "-f", str(manifest)]) == 1
    said = capsys.readouterr()
    assert "\\u202e" in said.out
    assert not set("\x1b\x07\x9b\u202e") & set(said.out + said.err)
