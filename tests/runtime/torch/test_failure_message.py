"""A worker's exception becomes the termination message of its container."""

import json
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edl.runtime.torch import failure_message


def broken() -> Exception:
    try:
        runner()
    except ZeroDivisionError as error:
        return error
    raise AssertionError


def runner() -> None:
    exec(compile("1 / 0", "train.py", "exec"))  # noqa: S102 - a script


def failure(message: Any, exitcode: int = 1, *, file: bool = True) -> Any:
    """As torch reads it from the error file."""
    data = {"message": message if file else "<NONE>"}
    return SimpleNamespace(exitcode=exitcode, message=message, error_file_data=data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "termination-log"
    file.touch()
    return file


def test_from_the_exception_to_the_containers_message(tmp_path: Path, log: Path) -> None:
    file = tmp_path / "error.json"
    failure_message.write_error_file(broken(), {"TORCHELASTIC_ERROR_FILE": str(file)}, besides=frozenset({__file__}))
    data = json.loads(file.read_text())
    assert data["message"]["message"] == "ZeroDivisionError: division by zero"
    failure_message.write_termination_message(failure(data["message"]), {"EDL_TERMINATION_LOG": str(log)})
    reported = log.read_text().splitlines()
    assert reported[-1] == "ZeroDivisionError: division by zero"
    assert 'File "train.py", line 1' in reported[1], "the script's own lines alone"


def test_a_script_that_cannot_be_compiled_is_all_that_is_told(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    try:
        compile("for i in range(3)\n    print(i)\n", "train.py", "exec")
    except SyntaxError as error:
        ours = frozenset({__file__})
        failure_message.write_error_file(error, {"TORCHELASTIC_ERROR_FILE": str(file)}, besides=ours)
    first, *_, last = failure_message.text_of(json.loads(file.read_text())["message"]).splitlines()
    assert first.strip() == 'File "train.py", line 1'
    assert last == "SyntaxError: expected ':'"


def test_what_the_script_left_itself_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text("its own")
    failure_message.write_error_file(broken(), {"TORCHELASTIC_ERROR_FILE": str(file)})
    assert file.read_text() == "its own"


def test_without_an_error_file_nothing_happens() -> None:
    failure_message.write_error_file(broken(), {})


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (failure("Signal 9 (SIGKILL) received by PID 7", -9, file=False), "Signal 9 (SIGKILL) received by PID 7"),
        (failure("To enable traceback see: docs", file=False), ""),
        (failure("x" * 9000 + "the end"), "x" * (failure_message.MOST_BYTES - 7) + "the end"),
    ],
)
def test_what_is_told(log: Path, found: Any, reported: str) -> None:
    failure_message.write_termination_message(found, {"EDL_TERMINATION_LOG": str(log)})
    assert log.read_text() == reported


def test_nothing_is_made_where_there_is_no_container(tmp_path: Path) -> None:
    failure_message.write_termination_message(failure("x"), {"EDL_TERMINATION_LOG": str(tmp_path / "none")})
    assert list(tmp_path.iterdir()) == []


def test_a_traceback_as_python_prints_it() -> None:
    stack = "".join(traceback.format_exception(broken()))
    assert failure_message.text_of({"message": "m", "extraInfo": {"py_callstack": stack}}) == stack.strip()
    assert failure_message.text_of({"message": "m"}) == "m"
