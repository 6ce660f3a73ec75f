"""Whom the trainer asks: the Brain, and if it is absent, slow, wrong or talks nonsense, its own local rules.

The local rules are the Brain's policy on the job's own samples: they know no other job. Which of the two spoke is said
in the log when it changes, and kept with every plan.
"""

import logging
from collections.abc import Callable
from typing import Literal

import msgspec

from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.brain.messages import Ask, Beginning, Ending, Report
from edl.brain.policy.decide import Verdict, decide
from edl.brain.policy.facts import Capacity, Features, JobFacts, Plan, PodUse
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.policy.startup import start

from .spec import UnreasonableError, check
from .state import TrainerState

log = logging.getLogger(__name__)

Source = Literal["brain", "local"]
NONE = "there is no Brain"
_TROUBLE = (BrainDownError, BrainRefusalError, UnreasonableError)


class Advice(msgspec.Struct, frozen=True):
    verdict: Verdict
    source: Source


class Advisor:
    """`find` looks for the Brain, with a token that is good for a while; None where there is none."""

    def __init__(
        self,
        find: Callable[[], BrainClient | None],
        job: str,
        settings: Settings = DEFAULTS,
    ) -> None:
        self._find, self._job, self.settings = find, job, settings
        self._known: BrainClient | None = None
        self._told = ""  # why the Brain was not followed last
        self._reported = 0.0  # time of the newest sample that the Brain has

    @property
    def _brain(self) -> BrainClient | None:
        if self._known is None:
            self._known = self._find()
            if self._known is None and self._told != NONE:
                log.info("%s: plans are made by local rules", NONE)
                self._told = NONE
        return self._known

    def start(self, features: Features, capacity: Capacity | None) -> tuple[Plan, Source]:
        brain = self._brain
        if brain is not None:
            try:
                plan = brain.begin(self._job, Beginning(features, capacity)).plan
                if plan is None:
                    raise UnreasonableError("the start-up plan is missing")
                check(plan, features, {})
                self._heard()
                return plan, "brain"
            except _TROUBLE as error:
                self._absent(error)
        return start(features, [], capacity, self.settings), "local"

    def next(self, facts: JobFacts, uses: dict[str, PodUse], now: float) -> Advice:
        brain = self._brain
        if brain is not None:
            try:
                return Advice(self._from_brain(brain, facts, uses), "brain")
            except _TROUBLE as error:
                self._absent(error)
        return Advice(decide(facts, now, self.settings), "local")

    def end(self, outcome: Literal["succeeded", "failed"], state: TrainerState) -> None:
        """All that was not told yet, and the last word; without a Brain there is nobody to tell."""
        brain = self._brain
        if brain is not None:
            try:
                samples = tuple(sample for sample in state.samples if sample.time > self._reported)
                brain.report(self._job, Report(samples, state.plans, state.incidents))
                brain.end(self._job, Ending(outcome))
            except _TROUBLE as error:
                self._absent(error)

    def _from_brain(self, brain: BrainClient, facts: JobFacts, uses: dict[str, PodUse]) -> Verdict:
        ask = Ask(
            samples=tuple(sample for sample in facts.samples if sample.time > self._reported),
            plans=facts.plans,
            incidents=facts.incidents,
            present=facts.present,
            slots=facts.slots,
            granted=facts.granted,
            capacity=facts.capacity,
            remaining=facts.remaining,
            pause=facts.pause,
        )
        try:
            answer = brain.plan(self._job, ask)
        except BrainRefusalError as error:
            if error.code != "no-such-job":
                raise
            brain.begin(self._job, Beginning(facts.features, facts.capacity))  # it was away when the job began
            self._reported = 0.0
            answer = brain.plan(self._job, msgspec.structs.replace(ask, samples=facts.samples))
        if answer.plan is not None:
            check(answer.plan, facts.features, uses)
        self._reported = max((sample.time for sample in facts.samples), default=self._reported)
        self._heard()
        judged = answer.judged
        if judged is not None and (not facts.plans or judged.number != facts.plans[-1].number):
            judged = None
        return Verdict(answer.plan, answer.reason, judged)

    def _absent(self, error: Exception) -> None:
        if str(error) != self._told:
            log.warning("the Brain is not followed (%s): plans are made by local rules", error)
        self._told = str(error)
        if isinstance(error, BrainRefusalError) and error.status == 401:
            self._known = None  # the next look asks for a new token

    def _heard(self) -> None:
        if self._told:
            log.info("the Brain answers again")
        self._told = ""
