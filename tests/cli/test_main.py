"""The command line as a whole: help, mistakes, interruptions, and modules that it must not import."""

import os
import signal
import subprocess
import sys
import types
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from edl import __version__
from edl.cli.errors import CommandError
from edl.cli.main import main
from edl.cli.registry import FOLDER, Command, all_parsers, commands
from edl.jobs.crds import crds

EXAMPLE = Path(__file__).parents[2] / "examples" / "trainingjob.yaml"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    overview = capsys.readouterr().out
    assert all(f"  {name} " in overview and command.summary in overview for name, command in commands().items())


def test_every_module_that_can_be_run_is_a_command_and_says_what_the_overview_shows() -> None:
    """SUMMARY and ORDER are read from the source text: a form that the reader misses would hide a command."""
    named = {path.stem for path in Path(FOLDER).glob("*/*.py") if "\ndef run(" in path.read_text()}
    assert set(commands()) == named
    for command in commands().values():
        module = command.load()
        assert (command.summary, command.order) == (module.SUMMARY, module.ORDER)


def test_no_two_commands_share_a_position() -> None:
    orders = [command.order for command in commands().values()]
    assert orders == sorted(set(orders))


def test_every_command_has_a_parser() -> None:
    parsers = dict(all_parsers())
    assert list(parsers) == list(commands())
    assert all(parser.format_help().startswith(f"usage: edl {name}") for name, parser in parsers.items())


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
    monkeypatch.setitem(sys.modules, "edl.cli.commands.jobs.raising", Raising(error))
    monkeypatch.setitem(commands(), "raising", Command("edl.cli.commands.jobs.raising", summary="raises", order=0))
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
    "words",
    [["--help"], ["version"], ["get", "--help"], ["submit", "--help"], ["validate", "-f", str(EXAMPLE)]],
    ids=lambda words: words[0],
)
def test_nothing_heavy_is_imported(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from edl.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "names = {'aiohttp', 'numpy', 'torch', 'asyncio', 'cryptography', 'rich'}\n"
        "heavy = [name for name in sys.modules if name in names or name.endswith('.reconcile')]\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "most"), [(["-m", "edl.cli.main", "--help"], 0.3), (["-c", "import edl"], 0.1)], ids=["help", "import"]
)
def test_a_start_is_quick(command: list[str], most: float) -> None:
    """In seconds of the processor, which others who use it do not change; the best of three."""
    assert min(_spent([sys.executable, *command]) for _ in range(3)) < most


def _spent(command: list[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_kubectl_finds_it_as_a_plugin() -> None:
    """`kubectl edl ...` starts what is called kubectl-edl."""
    installed = {one.name: one.load() for one in entry_points(group="console_scripts") if one.value.startswith("edl.")}
    assert installed == {"edl": main, "kubectl-edl": main}


@pytest.mark.parametrize("words", [["watch", "x"], ["watch"], ["validat", "-f", "x"]])
def test_what_is_no_command_is_said_first(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert f"there is no command '{words[0]}'" in capsys.readouterr().err


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "commands:" in capsys.readouterr().out
    assert main(["help", "get"]) == 0
    assert "usage: edl get" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name in commands():
        assert name in script
    assert "no-headers" in script


def test_bash_takes_the_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    ask = "COMP_WORDS=(edl desc); COMP_CWORD=1; _edl; echo ${COMPREPLY[@]}"
    script = capsys.readouterr().out + ask
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("describe\n", "")
