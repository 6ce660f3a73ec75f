"""Progress that should be written has jobs reconciled: each every 30 s at most, 20 a second in all."""

import asyncio

import pytest

from edl.operator.progress_writes import ProgressWrites
from edl.operator.reconcile.job_key import JobKey
from edl.operator.reconcile.shown_progress import eta_text, shown_progress
from edl.protocol.progress import LastProgress


class Stage:
    def __init__(self) -> None:
        self.now, self.reports, self.queued = 0.0, set[JobKey](), list[str]()
        self.writes = ProgressWrites(self._take, lambda key: self.queued.append(key.name), clock=lambda: self.now)

    def _take(self) -> list[JobKey]:
        taken, self.reports = self.reports, set()
        return sorted(taken)

    def after(self, seconds: float, *names: str) -> list[str]:
        """The jobs reconciled by a look so much later, after reports of these."""
        self.now += seconds
        self.reports |= {JobKey("kind", "ns", name) for name in names}
        self.queued.clear()
        self.writes.requeue_due()
        return list(self.queued)


def test_a_job_is_looked_at_when_it_reports_and_then_every_half_minute() -> None:
    stage = Stage()
    assert stage.after(1, "a") == ["a"]
    assert stage.after(1, "a", "b") == ["b"]
    assert stage.after(28) == []
    assert stage.after(1) == ["a"]
    assert stage.after(60) == [], "nobody reported since"


def test_twenty_at_a_time() -> None:
    stage = Stage()
    names = [f"j{number:02}" for number in range(50)]
    assert [len(stage.after(1, *names)), len(stage.after(1)), len(stage.after(1)), len(stage.after(1))] == [
        20,
        20,
        10,
        0,
    ]


@pytest.mark.case("attack-5")
async def test_news_that_break_our_code_do_not_end_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    stage, rounds = Stage(), iter(range(3))
    ended = asyncio.CancelledError

    async def sleep(seconds: float) -> None:
        if next(rounds, None) is None:
            raise ended
        stage.reports = {JobKey("kind", "ns", "good")}

    def broken() -> list[JobKey]:
        if stage.queued:
            return []
        stage.queued.append("asked")
        raise OverflowError("int too large to convert to float")

    writes = ProgressWrites(
        stage._take, lambda key: stage.queued.append(key.name), broken, clock=lambda: stage.now, sleep=sleep
    )
    with pytest.raises(ended):
        await writes.run()
    assert stage.queued == ["asked", "good"]
    assert "int too large" in caplog.text


def test_what_a_person_reads() -> None:
    found = shown_progress(LastProgress(done=42, total=100, loss=0.5, left=700.0, pass_index=2))
    assert found is not None
    assert (found.shown, found.eta, found.epoch) == ("42%", "12m", 2.0)
    steps = shown_progress(LastProgress(done=42))
    assert steps is not None
    assert steps.shown == "step 42"
    assert shown_progress(LastProgress(pause=3.0)) is None
    assert shown_progress(None) is None


def test_time_left_is_coarse() -> None:
    times = (0, 59, 60, 3500, 3599, 7500, 12000, 100 * 3600)
    assert [eta_text(time) for time in times] == ["<1m", "<1m", "1m", "58m", "1h", "2h", "3h20m", "4d"]
