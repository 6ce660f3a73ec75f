"""What a job does now, from what its pods and its reports show; what it has to remember for that."""

import msgspec
from msgspec.structs import replace

from edl.ledger.amounts import NOTHING, Amounts
from edl.ledger.booking import OpenAccount, book, change_begins, change_took, move, opened, use_now
from edl.ledger.uses import Use


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is observed of a job. The amounts are of its pods: not there or without a node, not started yet, down after
    a failure, at work. Instances are those of its leading role; what others occupy counts with them. `members` names
    the instances at work: another text, other members."""

    waiting: Amounts = NOTHING
    starting: Amounts = NOTHING
    failed: Amounts = NOTHING
    running: Amounts = NOTHING
    members: str = ""
    at_work: bool = False
    """It has what it needs to train, as far as its pods show."""
    restarting: bool = False
    ended: bool = False
    idle: float | None = None
    """Seconds for which it has made no progress, once they are too many."""
    moved: float | None = None
    """When it last told of progress; None: it never did, as far as is known."""
    done: int | None = None
    pause: float | None = None
    """How long its last change of members stopped it, as it says."""


class JobMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """`peak` is the most that was ever done; what is done again below it is not new."""

    trained: bool = False
    reported: bool = False
    """It has told of progress; before that, only its pods showed what it did."""
    members: str = ""
    changed: float | None = None
    """When its members last changed."""
    peak: int = 0
    pause: float | None = None
    stalled: bool = False


class KeptLedger(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job's state object holds of the ledger: enough for a successor to go on."""

    open: OpenAccount
    memory: JobMemory = JobMemory()


def started(created: float) -> KeptLedger:
    return KeptLedger(opened(created))


def observe(kept: KeptLedger, facts: JobFacts, now: float, seconds: float) -> KeptLedger:
    """Books the `seconds` since the last call as what the job did then, and notes what it does now."""
    account, memory = book(kept.open, seconds), kept.memory
    if memory.trained and not facts.ended and facts.members != memory.members:
        account, memory = change_begins(account), replace(memory, changed=now)
    if facts.moved is not None and not memory.reported:
        account = _began_only_now(account, facts)
    memory = replace(
        memory,
        members=facts.members,
        trained=memory.trained or _trains(facts),
        reported=memory.reported or facts.moved is not None,
    )
    if facts.pause is not None and facts.pause != memory.pause:
        account = change_took(account, facts.pause, facts.running) if memory.changed is not None else account
        memory = replace(memory, pause=facts.pause)
    if facts.idle is not None and not memory.stalled:  # it was training as long as nobody knew better
        account = replace(account, account=move(account.account, Use.TRAINING, Use.IDLE, facts.idle, facts.running))
    use = _of_running(facts, memory)
    uses = {Use.WAITING: facts.waiting, Use.STARTING: facts.starting, Use.FAILED: facts.failed}
    uses[use] = uses.get(use, NOTHING) + facts.running
    memory = replace(memory, peak=max(memory.peak, facts.done or 0), stalled=facts.idle is not None)
    return KeptLedger(use_now(account, _of_job(facts, use), uses), memory)


def _began_only_now(account: OpenAccount, facts: JobFacts) -> OpenAccount:
    """The first word of its progress: what its pods had shown as training was its start. One that never says a word is
    taken to train as soon as its pods are at work."""
    moved = move(account.account, Use.TRAINING, Use.STARTING, account.training_for, facts.running)
    return replace(account, account=moved, training_for=0.0)


def _trains(facts: JobFacts) -> bool:
    return facts.running.instances > 0 and (facts.moved is not None or facts.at_work)


def _of_job(facts: JobFacts, running: Use) -> Use:
    """The job's own time: it does what its foremost instances do."""
    if facts.running != NOTHING or facts.ended:
        return running
    if facts.starting != NOTHING:
        return Use.STARTING
    return Use.FAILED if facts.failed.instances else Use.WAITING


def _of_running(facts: JobFacts, memory: JobMemory) -> Use:
    if facts.ended or facts.idle is not None:
        return Use.IDLE
    if not memory.trained:
        return Use.STARTING
    if facts.restarting or not facts.running.instances or _regroups(facts, memory):
        return Use.CHANGING
    return Use.RECOMPUTING if facts.done is not None and facts.done < memory.peak else Use.TRAINING


def _regroups(facts: JobFacts, memory: JobMemory) -> bool:
    """Its members changed and it has not told of progress since. One that never tells is taken to train on."""
    return facts.moved is not None and memory.changed is not None and facts.moved < memory.changed
