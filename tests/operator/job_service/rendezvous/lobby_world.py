"""Agents and leaders that exchange messages in memory, in any order a test likes, on a clock that it turns."""

from dataclasses import dataclass, field

from edl.operator.job_service.rendezvous.lobby import Lobby
from edl.operator.job_service.rendezvous.members import Pods
from edl.protocol.rendezvous import Hello
from edl.protocol.rounds import Round, pod_of
from edl.runtime.torch.agent_state import AgentState


@dataclass
class World:
    minimum: int = 2
    maximum: int = 4
    window: float = 3.0
    linger: float = 1.0
    target: int = 0
    bounds: tuple[int, int] | None = None
    """What the job says now; agents were started with `minimum` and `maximum`."""
    now: float = 100.0
    stored: Round | None = None
    """What is durable: a new leader has nothing else."""
    rounds: list[Round] = field(default_factory=list)
    agents: dict[str, AgentState] = field(default_factory=dict)
    connected: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)
    lobby: Lobby = field(init=False)

    def __post_init__(self) -> None:
        self.lobby = Lobby("run", self.now)

    def start(self, *pods: str, settle: bool = True) -> None:
        """One agent in each pod, connected and ready for a round."""
        for pod in pods:
            number = sum(pod_of(agent) == pod for agent in self.agents)
            name = f"{pod}/{number}"
            self.agents[name] = AgentState(
                Hello(
                    agent=name,
                    run="run",
                    minimum=self.minimum,
                    maximum=self.maximum,
                    window=self.window,
                    linger=self.linger,
                    follows=True,
                )
            )
            self.gone.discard(pod)
            self.leaving.discard(pod)
            self.agents[name].wait(f"{name}:1")
            self.connect(name)
        if settle:
            self.settle()

    def connect(self, agent: str) -> None:
        self.connected.add(agent)
        self.lobby.hello(self.agents[agent].hello, self.now)
        self.report_changed(agent)

    def report_changed(self, agent: str) -> None:
        report = self.agents[agent].report
        if agent in self.connected and report is not None:
            self.lobby.report(agent, report, self.now)

    def cut(self, agent: str) -> None:
        self.connected.discard(agent)
        self.lobby.lost(agent, self.now)

    def kill(self, pod: str) -> None:
        """The agent is gone, as seen from its connection alone."""
        agent = self.named(pod)
        self.dead.add(agent)
        self.cut(agent)

    def lead_anew(self) -> None:
        """Another leader: it has what was stored and knows nobody until they call."""
        self.lobby = Lobby("run", self.now, round=self.stored)
        self.connected.clear()

    def reconnect(self) -> None:
        for agent in sorted(set(self.agents) - self.dead - self.connected):
            self.connect(agent)

    def named(self, pod: str) -> str:
        return max(agent for agent in self.agents if pod_of(agent) == pod)

    def state(self, pod: str) -> AgentState:
        return self.agents[self.named(pod)]

    def act(self, agent: str) -> bool:
        """Does what an agent does on what it was told: stops its workers and waits for the next round."""
        state = self.agents[agent]
        if agent in self.dead or not (state.stale or state.failure_cause) or state.over:
            return False
        state.stale = ""
        state.wait(f"{agent}:{state.number + 1}")
        self.report_changed(agent)
        return True

    def tell(self, agent: str) -> None:
        for word in self.lobby.messages({agent} & self.connected, self.now).values():
            self.agents[agent].receive(word)

    def decide(self) -> bool:
        """One look of the leader; what it decides becomes durable and is then its truth."""
        pods = {pod_of(agent) for agent in self.agents}
        ended = self.failed | self.succeeded
        self.lobby.observe(
            Pods(
                frozenset(pods - self.gone - ended),
                frozenset(self.leaving),
                frozenset(self.failed),
                frozenset(self.succeeded),
                self.target,
                self.bounds,
            )
        )
        plan = self.lobby.decide(self.now)
        if plan.round is None:
            return False
        self.stored = plan.round
        if not plan.round.over:
            self.rounds.append(plan.round)
        self.lobby.adopt(plan.round, self.now)
        return True

    def settle(self) -> None:
        """Everybody says, hears and does what there is, until nothing changes any more."""
        changed = True
        while changed:
            for agent in sorted(self.agents):
                self.report_changed(agent)
            changed = self.decide()
            for agent in sorted(self.agents):
                self.tell(agent)
                changed |= self.act(agent)

    def pass_time(self, seconds: float) -> None:
        """Looks whenever the leader said that it wants to look."""
        end = self.now + seconds
        while True:
            self.settle()
            at = self.lobby.decide(self.now).decide_at
            if at is None or at > end:
                break
            self.now = at
        self.now = end
        self.settle()

    @property
    def allowed(self) -> tuple[int, int]:
        return self.bounds or (self.minimum, self.maximum)

    def members(self) -> list[str]:
        """The pods of the last round, by rank."""
        return [pod_of(member.agent) for member in self.rounds[-1].members] if self.rounds else []
