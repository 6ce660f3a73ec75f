"""Turns what a job reported of its training into what its status shows, coarse enough to change seldom."""

from edl.api.status import JobProgress, MemberChange
from edl.protocol.progress import LastProgress
from edl.protocol.rounds import RoundChange


def shown_progress(last: LastProgress | None) -> JobProgress | None:
    """None where nothing was reported that a person would want to read."""
    if last is None or all(value is None for value in (last.done, last.loss, last.throughput, last.epoch)):
        return None
    return JobProgress(
        shown=_shown(last),
        eta=eta_text(last.left) if last.left is not None else "",
        done=last.done,
        total=last.total,
        epoch=last.epoch if last.epoch is not None else last.pass_index,
        loss=last.loss,
        throughput=last.throughput,
        mean=last.mean,
        seconds=last.seconds,
    )


def shown_change(change: RoundChange) -> MemberChange:
    return MemberChange(
        round=change.number,
        before=change.before,
        to=change.after,
        in_place=change.in_place,
        pause_seconds=round(change.pause, 3),
        steps_lost=change.lost if change.lost >= 0 else None,
        bytes_sent=change.sent,
    )


def _shown(last: LastProgress) -> str:
    if last.percent is not None:
        return f"{last.percent}%"
    if last.done is not None:
        return f"step {last.done}"
    return f"epoch {last.epoch:g}" if last.epoch is not None else ""


def eta_text(seconds: float) -> str:
    """<1m, 12m, 3h20m, 4d: it would be written every 30 s if it were finer."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return "<1m"
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 48 * 60:
        hours, rest = divmod(round(minutes / 10) * 10, 60)
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    return f"{round(minutes / (24 * 60))}d"
