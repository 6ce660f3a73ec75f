"""Figures of a training in its log lines: which lines count, and what becomes of them."""

from typing import Any

import pytest

from edl.cli.connect.log_progress import LogProgress, both, drawn, figures, is_bar
from edl.protocol.progress import LOG, LastProgress, ProgressReport


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("step 120/600 loss 0.31", {"done": 120, "total": 600, "loss": 0.31}),
        ("step 10 of 200 with 4 workers: loss 0.0231", {"done": 10, "total": 200, "loss": 0.0231}),
        ("Iteration: 5/90, training loss=1e-3", {"done": 5, "total": 90, "loss": 0.001}),
        ("Epoch 3 [batch 5/90] loss: 2.5", {"done": 5, "total": 90, "loss": 2.5, "epoch": 3.0}),
        ("{'loss': 4.08, 'grad_norm': 1.2, 'epoch': 0.02}", {"loss": 4.08, "epoch": 0.02}),
        ("{'loss': '4.08', 'epoch': '0.02'}", {"loss": 4.08, "epoch": 0.02}),
        (" 42%|████      | 252/600 [00:12<00:17, 20.0it/s, loss=0.3]", {"done": 252, "total": 600, "loss": 0.3}),
        ("\r 40%|####      | 12/30 [00:03<00:05,  3.2it/s]   ", {"done": 12, "total": 30}),
        (
            "\r  3%|   | 1/30 [00:00<?, ?it/s]\r          \r\r  7%|   | 2/30 [00:01<00:05,  3s/it]",
            {"done": 2, "total": 30},
        ),
        ("Epoch 3:  40%|####  | 12/30 [00:03<00:05]", {"done": 12, "total": 30, "epoch": 3.0}),
        ("Training:  40%|####  | 12/30 [00:03<00:05]", {"done": 12, "total": 30}),
        (
            "{'loss': 0.31, 'grad_norm': 2.5, 'learning_rate': 5e-05, 'epoch': 0.4}",
            {"loss": 0.31, "epoch": 0.4},
        ),
        ("iter 3/9 812.5 samples/s", {"done": 3, "total": 9, "throughput": 812.5}),
        ("global_step=7/70", {"done": 7, "total": 70}),
        ("train_loss: -0.5", {"loss": -0.5}),
    ],
)
def test_lines_that_people_print(line: str, found: dict[str, Any]) -> None:
    assert figures(line) == ProgressReport(**found, source=LOG)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "step by step",
        "12/600",
        "steps: many of them",
        "lossless 3",
        "footstep 3/4",
        "loss: nan",
        "Loading weights: 100%|##########| 28/28 [00:00<00:00, 900it/s]",
        "Map:  50%|#####     | 500/1000 [00:01<00:01, 480 examples/s]",
        "Tokenizing train dataset:  50%|#####     | 500/1000 [00:01<00:01, 480 examples/s]",
        "{'eval_loss': 0.5, 'eval_runtime': 1.2, 'epoch': 1.0}",
        "\r\r\r",
        "step 3/0",
        "\x00\xff\ufffd" * 500,
        "step " + "9" * 400 + "/" + "9" * 400,
        "epoch 3",
    ],
)
def test_lines_that_say_nothing_of_the_training(line: str) -> None:
    found = figures(line)
    assert found is None or not found.said


def test_a_line_without_end_costs_little() -> None:
    assert figures("step " * 2_000_000) is None
    assert figures("x" * 10_000_000 + " loss 0.5") == ProgressReport(loss=0.5, source=LOG)


def test_lines_add_up_to_a_pace_and_the_time_left() -> None:
    progress = LogProgress()
    assert progress.last(0.0) is None
    for second in range(5):
        progress.read(f"step {10 * second}/100", float(second))
        progress.read(f"loss {1.0 / (second + 1)}", float(second))
    last = progress.last(5.0)
    assert last is not None
    assert (last.done, last.total, last.loss, last.left, last.rate, last.age) == (40, 100, 0.2, 5.0, 10.0, 1.0)
    assert progress.report() == ProgressReport(done=40, total=100, loss=0.2, source=LOG)


def test_what_the_job_reports_counts_and_lines_fill_the_gaps() -> None:
    reported, read = LastProgress(total=40, age=1.0), LastProgress(loss=0.5, epoch=0.1, total=9, age=0.0)
    assert both(reported, read) == LastProgress(total=40, loss=0.5, epoch=0.1, age=1.0)
    assert both(None, read) == read
    assert both(reported, None) == reported
    assert both(None, None) is None


def test_steps_of_another_total_are_not_the_trainings() -> None:
    """An evaluation in between has a bar of its own."""
    reported, read = (
        LastProgress(total=40, age=1.0),
        LastProgress(done=9, total=9, left=0.0, rate=3.0, loss=0.5, age=0.0),
    )
    assert both(reported, read) == LastProgress(total=40, loss=0.5, age=1.0)
    assert both(reported, LastProgress(done=9, total=40, left=6.0, age=0.0)) == LastProgress(
        done=9, total=40, left=6.0, age=1.0
    )


def test_of_what_was_drawn_over_all_but_bars_is_shown() -> None:
    one, two = " 40%|####  | 12/30 [00:03<00:05]", " 43%|####  | 13/30 [00:03<00:05]"
    assert drawn(f"\r{one}\r    \r\r{two}") == [two]
    assert drawn(f"\r{one}\rhello\r{two}") == ["hello", two]
    assert drawn("as it is  ") == ["as it is  "]
    assert drawn("\r") == [""]
    assert is_bar(two)
    assert not is_bar(f"{two}Traceback (most recent call last):")
    assert not is_bar("hello")
