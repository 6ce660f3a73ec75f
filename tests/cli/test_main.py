"""The frame of the command line: help, mistakes, interruptions, and what must not be imported for it."""

import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

from edl import __version__
from edl.api.crds import crds
from edl.cli import main as main_module
from edl.cli.main import COMMANDS, CommandError, main

EXAMPLE = Path(__file__).parents[2] / "examples" / "trainingjob.yaml"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    overview = capsys.readouterr().out
    assert all(f"  {name} " in overview and summary in overview for name, (_, summary) in COMMANDS.items())


def test_without_a_command_it_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out == f"edl {__version__}\n"


def test_a_mistyped_command_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["validat"])
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no command 'validat'; did you mean validate?" in captured.err


def test_crds_are_printed_as_yaml_and_as_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    text = capsys.readouterr().out
    assert list(yaml.safe_load_all(text)) == crds()
    assert "&id" not in text
    assert main(["crds", "-o", "json"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": crds()}


class Raising(types.ModuleType):
    """A command that ends as told."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("raising", "A command for tests.")
        self.error = error

    def arguments(self, parser: object) -> None:
        pass

    def run(self, options: object) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "complaint"),
    [
        (CommandError("no cluster runs: edl up"), 1, "edl: no cluster runs: edl up\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_how_commands_end(
    error: BaseException, code: int, complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tests.cli.raising", Raising(error))
    monkeypatch.setitem(main_module.COMMANDS, "raising", ("tests.cli.raising", "raises"))
    assert main(["raising"]) == code
    assert capsys.readouterr().err == complaint


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`edl crds | head -1`: more is written than a pipe holds, so the writer is told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edl.cli.main", "crds", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stderr
    process.stdout.read(10)
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 128 + signal.SIGPIPE
    assert complaint == b""


@pytest.mark.parametrize(
    "words", [["--help"], ["version"], ["validate", "-f", str(EXAMPLE)]], ids=lambda words: words[0]
)
def test_nothing_heavy_is_imported(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from edl.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'aiohttp', 'numpy', 'torch', 'asyncio', 'cryptography', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
