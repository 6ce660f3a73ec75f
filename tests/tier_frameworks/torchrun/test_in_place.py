"""torchrun with a script of three elastic lines: its workers live on through a join, a leave and a kill."""

import signal
from pathlib import Path

import pytest

from tests.tier_frameworks.torchrun.group import ROOT, group
from tests.tier_frameworks.torchrun.ledger import Ledger

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
SCRIPT = ROOT / "examples" / "pytorch" / "elastic.py"


def test_torchrun_leaves_workers_alive_that_can_change_in_place(tmp_path: Path) -> None:
    with group(tmp_path, script=SCRIPT) as made:
        ledger = Ledger(made.trace)
        words = ("--epochs", "100000", "--pause", "0.05", "--trace", str(made.trace))
        made.leader.edit(target=2)
        made.start("a", "b", args=words)
        ledger.until_steps(2)
        first = ledger.pids()
        made.leader.edit(target=3)
        made.start("c", args=words)
        ledger.until_steps(3)
        assert ledger.pids() > first, "no worker was started anew"
        made.agents["b"].send_signal(signal.SIGTERM)
        ledger.until_steps(2)
        assert made.code("b") != 0
        made.kill("c")
        ledger.until_steps(1)
        assert len(ledger.pids()) == 3
        ledger.assert_exact()
