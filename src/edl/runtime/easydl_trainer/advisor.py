"""Asks the Brain for plans, and falls back to local rules if it is absent, slow or wrong.

The local rules are the Brain's policy on the job's own samples: they know no other job. Which of the two made a plan is
logged when it changes, and kept with every plan.
"""

import logging
from collections.abc import Callable
from typing import Literal

import msgspec

from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.brain.policy.bounds import bounded
from edl.brain.policy.decide import Decision, decide
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.policy.startup import startup_plan
from edl.protocol.brain import Ask, Beginning, Ending, Outcomes, Report
from edl.protocol.errors import ErrorCode
from edl.protocol.job_facts import Capacity, Features, JobFacts, PodUsage, ResourcePlan
from edl.runtime.easydl_trainer.plan_spec import InvalidPlanError, check
from edl.runtime.easydl_trainer.state import TrainerState

log = logging.getLogger(__name__)

Source = Literal["brain", "local"]
NONE = "there is no Brain"
_BRAIN_ERRORS = (BrainDownError, BrainRefusalError, InvalidPlanError)


class Advice(msgspec.Struct, frozen=True):
    decision: Decision
    source: Source


class Advisor:
    """`find` returns a client of the Brain, with a token that is good for a while; None where there is none."""

    def __init__(
        self,
        find: Callable[[], BrainClient | None],
        job: str,
        settings: Settings = DEFAULTS,
    ) -> None:
        self._find, self._job, self.settings = find, job, settings
        self._known: BrainClient | None = None
        self._problem = ""  # why the Brain was not followed last
        self._reported = 0.0  # time of the newest sample that the Brain has

    @property
    def _brain(self) -> BrainClient | None:
        if self._known is None:
            self._known = self._find()
            if self._known is None and self._problem != NONE:
                log.info("%s: plans are made by local rules", NONE)
                self._problem = NONE
        return self._known

    def start(self, features: Features, capacity: Capacity | None) -> tuple[ResourcePlan, Source]:
        brain = self._brain
        if brain is not None:
            try:
                plan = brain.begin(self._job, Beginning(features, capacity, self.settings.limits)).plan
                if plan is None:
                    raise InvalidPlanError("the start-up plan is missing")
                check(plan, features, {})
                self._recovered()
                return bounded(plan, self.settings, {}), "brain"  # an older Brain knows no limits
            except _BRAIN_ERRORS as error:
                self._fall_back(error)
        return startup_plan(features, [], capacity, self.settings), "local"

    def next(self, facts: JobFacts, uses: dict[str, PodUsage], now: float) -> Advice:
        brain = self._brain
        if brain is not None:
            try:
                return Advice(self._from_brain(brain, facts, uses), "brain")
            except _BRAIN_ERRORS as error:
                self._fall_back(error)
        return Advice(decide(facts, now, self.settings), "local")

    def end(self, outcome: Outcomes, state: TrainerState) -> None:
        """Sends what was not reported yet, and how the job ended; without a Brain nothing is sent."""
        brain = self._brain
        if brain is not None:
            try:
                samples = tuple(sample for sample in state.samples if sample.time > self._reported)
                brain.report(self._job, Report(samples, state.plans, state.incidents))
                brain.end(self._job, Ending(outcome))
            except _BRAIN_ERRORS as error:
                self._fall_back(error)

    def _from_brain(self, brain: BrainClient, facts: JobFacts, uses: dict[str, PodUsage]) -> Decision:
        try:
            answer = brain.plan(self._job, Ask.about(facts, self.settings.limits, since=self._reported))
        except BrainRefusalError as error:
            if error.code != ErrorCode.NO_SUCH_JOB:
                raise
            beginning = Beginning(facts.features, facts.capacity, self.settings.limits)
            brain.begin(self._job, beginning)  # it was away when the job began
            self._reported = 0.0
            answer = brain.plan(self._job, Ask.about(facts, self.settings.limits))
        if answer.plan is not None:
            check(answer.plan, facts.features, uses)
        self._reported = max((sample.time for sample in facts.samples), default=self._reported)
        self._recovered()
        judged = answer.judged
        if judged is not None and (not facts.plans or judged.number != facts.plans[-1].number):
            judged = None
        plan = answer.plan and bounded(answer.plan, self.settings, facts.present)
        return Decision(plan, answer.reason, judged)

    def _fall_back(self, error: Exception) -> None:
        if str(error) != self._problem:
            log.warning("the Brain is not followed (%s): plans are made by local rules", error)
        self._problem = str(error)
        if isinstance(error, BrainRefusalError) and error.status == 401:
            self._known = None  # the next call asks for a new token

    def _recovered(self) -> None:
        if self._problem:
            log.info("the Brain answers again")
        self._problem = ""
