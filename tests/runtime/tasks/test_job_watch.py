"""What a master tells the job service of its progress."""

import threading
from queue import SimpleQueue

import pytest

from edl.protocol.progress import ProgressReport
from edl.runtime.tasks import job_watch
from edl.runtime.tasks.progress import Progress
from edl.runtime.tasks.shared_state import SharedState


class Listener:
    def __init__(self) -> None:
        self.reports = SimpleQueue[ProgressReport]()

    def progress(self, report: ProgressReport) -> None:
        self.reports.put(report)


def test_the_end_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers leave when all is done, and the master with them: a report that waits for its turn comes too late."""
    monkeypatch.setattr(job_watch, "REPORT", 600.0)
    shared, listener = SharedState(Progress(), epoch=1, term=10.0), Listener()
    thread = threading.Thread(target=job_watch.report_progress, args=(shared, listener), daemon=True)
    thread.start()
    try:
        with shared.changed:
            shared.queue.open(1, 1)
            lease = shared.queue.lease(holder=1, now=0.0)
            assert lease is not None
            shared.queue.finish(lease)
            shared.durable = shared.queue.version
            shared.changed.notify_all()
        report = listener.reports.get(timeout=60.0)
        assert (report.passes, report.done, report.total) == (1, 1, 1)
    finally:
        shared.stop()
        thread.join(60.0)
