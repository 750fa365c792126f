"""A quorum in which nothing happens by itself: a script says what arrives, whose timer fires, whose disk syncs.

Reads commands, one a line, and writes down what each causes; see `tests/unit/raft/transcripts`. The referee watches
here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from harness.raft.member import Member
from harness.raft.simulation import Call, Cluster
from harness.raft.storage import Entry
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import ReplicaKey, Voter, VoterSet
from tidelog.raft.roles import Remembered
from tidelog.raft.settings import QuorumSettings

ROUNDS_MAX: Final = 100
VOTER_CHANGE_TIMEOUT_MS: Final = 10_000
# Names that only tie an answer to its request, and what nobody asked for.
HIDDEN_FIELDS: Final = frozenset({"request_id", "call_id", "sync_id", "wait_max_ms", "message", "ack_when_committed"})


class CalmPlan:
    """Apache Kafka's defaults, no randomness, no faults."""

    settings = QuorumSettings()
    spread = 0.0
    spoils_snapshots = 0.0

    def __init__(self, dynamic_voters: bool, entries_per_fetch: int) -> None:
        self.dynamic_voters = dynamic_voters
        self.entries_per_fetch = entries_per_fetch

    def sync_ms(self, random: Random) -> float:
        return 0.0

    def voted(self, member: Member) -> None: ...

    def elected(self, member: Member) -> None: ...

    def crashed(self, member: Member) -> None: ...


class Letter(NamedTuple):
    """A request or an answer on its way."""

    source: NodeId
    to: NodeId
    arrive: Callable[[], None]
    # Whether it is an answer, and its kind, for the script to choose.
    kind: str


class Stage(Cluster):
    """Members 1 to n, of which the first `voters` vote."""

    def __init__(self, voters: int, observers: int, *, dynamic: bool, entries_per_fetch: int) -> None:
        super().__init__(0)
        self.plan = CalmPlan(dynamic, entries_per_fetch)  # type: ignore[assignment]
        self.lines: list[str] = []
        self.letters: list[Letter] = []
        self.pending: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.timers: dict[NodeId, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self.hides_timers = True
        node_ids = [NodeId(number + 1) for number in range(voters + observers)]
        self.members = {node_id: Member(self, node_id, UUID(int=node_id)) for node_id in node_ids}
        keys = [ReplicaKey(node_id, UUID(int=node_id) if dynamic else UUID(int=0)) for node_id in node_ids[:voters]]
        self.bootstrap = tuple(node_ids[:voters])
        self.first_voters = VoterSet(Voter(key) for key in keys)
        self.tracing = True

    def describe(self, key: ReplicaKey) -> Voter:
        return Voter(key)

    # --- what members want from their surroundings --------------------------------------------------------------------

    def note(self, line: str, *arguments: object) -> None:
        shown = [_shown(argument) for argument in arguments]
        if not (self.hides_timers and isinstance(arguments[-1], do.StartTimer)):
            self.lines.append(line % tuple(shown))

    def after(self, delay_ms: float, work: Callable[..., None], *arguments: Any) -> None:
        if work.__name__ == "_tick":
            member: Member = work.__self__  # type: ignore[attr-defined]
            self.timers[member.key.node_id] = (work, arguments)
        else:
            self.pending.append((work, arguments))

    def request(self, source: Member, to: NodeId, request_id: int, kind: Any, body: tuple[Any, ...]) -> None:
        call = Call(source, source.incarnation, request_id, body)
        self.letters.append(Letter(source.key.node_id, to, lambda: self._arrive(call, to, kind), kind.__name__))

    def answer(self, member: Member, call_id: int, kind: Any, body: tuple[Any, ...]) -> None:
        call = self.calls.pop(call_id)
        event = kind(call.request_id, member.key.node_id, *body)
        source, to = member.key.node_id, call.source.key.node_id
        arrive = lambda: call.source.deliver(call.incarnation, event)  # noqa: E731
        self.letters.append(Letter(source, to, arrive, kind.__name__))

    def _arrive(self, call: Call, to: NodeId, kind: Any) -> None:
        if self.members[to].alive:
            super()._arrive(call, to, kind)
        else:
            call.source.deliver(call.incarnation, on.RequestFailed(call.request_id))

    # --- what a script says -------------------------------------------------------------------------------------------

    def perform(self, command: str) -> None:
        name, *words = command.split()
        getattr(self, f"do_{name.replace('-', '_')}")(*words)

    def do_start(self, *nodes: str) -> None:
        for node in nodes or [str(node_id) for node_id in self.members]:
            self.members[NodeId(int(node))].start()

    def do_crash(self, node: str) -> None:
        """Nothing survives but what was synced; what it had sent still arrives."""
        member = self.members[NodeId(int(node))]
        member.disk.log.truncate(member.disk.log.synced_end)
        member.crash()
        self.timers.pop(member.key.node_id, None)

    def do_tick(self, node: str) -> None:
        """The time for which this node has set its timer has come, for this node alone."""
        work, arguments = self.timers.pop(NodeId(int(node)))
        member = self.members[NodeId(int(node))]
        member.clock_offset_ms += max(arguments[-1] - member.now_ms, 0)
        work(*arguments)

    def do_timeout(self, node: str) -> None:
        """Time passes for this node until it changes its role; nobody hears what it asks in vain meanwhile."""
        member = self.members[NodeId(int(node))]
        role = member.quorum.role
        for _ in range(ROUNDS_MAX):
            lines, letters = list(self.lines), list(self.letters)
            self.do_tick(node)
            if member.quorum.role is not role:
                return
            self.lines, self.letters = lines, letters
        raise AssertionError(f"{member.quorum} never changes its role")

    def do_wait(self, milliseconds: str) -> None:
        self.now_ms += int(milliseconds)

    def do_sync(self, *nodes: str) -> None:
        for work, arguments in self._take_pending(nodes):
            work(*arguments)

    def do_deliver(self, path: str, kind: str = "") -> None:
        for letter in self._take_letters(path, kind):
            letter.arrive()

    def do_lose(self, path: str, kind: str = "") -> None:
        self.lines += [f"lost: {letter.kind} {letter.source}->{letter.to}" for letter in self._take_letters(path, kind)]

    def do_hold(self, *paths: str) -> None:
        """What is on these paths is lost from now on when things settle."""
        self.cuts = {(NodeId(int(source)), NodeId(int(to))) for source, to in (path.split("->") for path in paths)}

    def do_settle(self, *rounds: str) -> None:
        """Deliver and sync until nobody has anything to say, but fire no timers."""
        for _ in range(ROUNDS_MAX):
            letters, self.letters = self.letters, []
            pending, self.pending = self.pending, []
            if not letters and not pending:
                return
            for work, arguments in pending:
                work(*arguments)
            for letter in letters:
                if (letter.source, letter.to) not in self.cuts:
                    letter.arrive()
        raise AssertionError("it never settles")

    def do_quietly(self, *command: str) -> None:
        """Do something that other scripts show."""
        kept = len(self.lines)
        self.perform(" ".join(command))
        del self.lines[kept:]

    def do_append(self, node: str, count: str = "1") -> None:
        self.members[NodeId(int(node))].append(self.next_values(int(count)))

    def do_resign(self, node: str) -> None:
        self.members[NodeId(int(node))].stop()

    def do_log(self, node: str, *runs: str) -> None:
        """Before it starts: a log such as `1x3 2x1`, three records of epoch 1 and one of epoch 2."""
        log = self.members[NodeId(int(node))].disk.log
        for run in runs:
            epoch, count = run.split("x")
            log.append([Entry(LeaderEpoch(int(epoch)), f"{epoch}.{index}") for index in range(int(count))])
        log.synced_end = log.end_offset

    def do_remember(self, node: str, epoch: str, leader: str = "-1") -> None:
        """Before it starts: what its file of votes says."""
        disk = self.members[NodeId(int(node))].disk
        disk.remembered = Remembered(LeaderEpoch(int(epoch)), None, NodeId(int(leader)))

    def do_snapshot(self, node: str) -> None:
        self.members[NodeId(int(node))].take_snapshot(forget=True)

    def do_add_voter(self, leader: str, node: str) -> None:
        key = self.members[NodeId(int(node))].key
        event = on.AddVoter(self.operator_call(), Voter(key), VOTER_CHANGE_TIMEOUT_MS)
        self.members[NodeId(int(leader))].step(event)

    def do_remove_voter(self, leader: str, node: str) -> None:
        key = self.members[NodeId(int(node))].key
        self.members[NodeId(int(leader))].step(on.RemoveVoter(self.operator_call(), key, VOTER_CHANGE_TIMEOUT_MS))

    def do_show(self, *what: str) -> None:
        if "timers" in what:
            self.hides_timers = False
        for node_id, member in self.members.items():
            log = member.disk.log
            entries = " ".join(_entry(entry) for entry in log.entries)
            start = f"from {log.start_offset} " if log.start_offset else ""
            state = repr(member.quorum) if member.alive else "down"
            self.lines.append(f"{node_id}: {state}, synced {log.synced_end}, log {start}[{entries}]")

    def _take_letters(self, path: str, kind: str) -> list[Letter]:
        source, to = (int(node) if node != "*" else None for node in path.split("->"))
        chosen = [
            letter
            for letter in self.letters
            if source in (None, letter.source) and to in (None, letter.to) and letter.kind.startswith(kind)
        ]
        assert chosen, f"nothing is on its way on {path} {kind}"
        self.letters = [letter for letter in self.letters if letter not in chosen]
        return chosen

    def _take_pending(self, nodes: Iterable[str]) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        node_ids = {int(node) for node in nodes} or set(self.members)
        chosen = [item for item in self.pending if item[0].__self__.key.node_id in node_ids]  # type: ignore[attr-defined]
        assert chosen, "no disk has anything to do"
        self.pending = [item for item in self.pending if item not in chosen]
        return chosen


# --- how it is written down -------------------------------------------------------------------------------------------


def _entry(entry: Entry) -> str:
    value = entry.value
    return f"{entry.epoch}:{_voters(value) if isinstance(value, VoterSet) else value}"


def _voters(voters: VoterSet) -> str:
    return "{" + ",".join(str(key.node_id) for key in voters.keys) + "}"


def _shown(value: object) -> object:
    match value:
        case ReplicaKey():
            return value.node_id
        case VoterSet():
            return _voters(value)
        case ErrorCode():
            return value.name
        case EpochEnd():
            return f"epoch {value.epoch} ends at {value.end_offset}"
        case SnapshotId():
            return f"{value.end_offset}-{value.epoch}"
        case Voter():
            return value.key.node_id
        case Entry():
            return _entry(value)
        case list() | tuple():
            return "[" + " ".join(str(_shown(item)) for item in value) + "]"
        case _ if hasattr(value, "__struct_fields__"):
            return _message(value)
    return value


def _message(message: Any) -> str:
    words = [type(message).__name__]
    defaults = dict(zip(reversed(message.__struct_fields__), reversed(message.__struct_defaults__), strict=False))
    for name in message.__struct_fields__:
        value = getattr(message, name)
        is_default = name in defaults and value == defaults[name]
        if not (name in HIDDEN_FIELDS or is_default or value is None or value is ErrorCode.NONE):
            words.append(f"{name}={_shown(value)}")
    return " ".join(words)


def perform(script: str) -> str:
    """Play a script, and return it with what its commands caused; what it said they cause is ignored."""
    stage: Stage | None = None
    played: list[str] = []
    for block in script.strip().split("\n\n"):
        lines = [line for line in block.split("\n----")[0].split("\n") if line]
        played += [line for line in lines if line.startswith("#")]
        commands = [line for line in lines if not line.startswith("#")]
        if not commands:
            played.append("")
            continue
        played += [*commands, "----"]
        for command in commands:
            if command.startswith("quorum"):
                stage = _set(command)
            else:
                assert stage is not None, "a script begins with its quorum"
                stage.perform(command)
        assert stage is not None
        played += [*stage.lines, ""] if stage.lines else ["ok", ""]
        stage.lines = []
    return "\n".join(played).rstrip() + "\n"


def _set(command: str) -> Stage:
    """`quorum voters=3 observers=0 static entries-per-fetch=8`."""
    words = dict(word.split("=") if "=" in word else (word, "") for word in command.split()[1:])
    return Stage(
        int(words["voters"]),
        int(words.get("observers", "0")),
        dynamic="static" not in words,
        entries_per_fetch=int(words.get("entries-per-fetch", "8")),
    )
