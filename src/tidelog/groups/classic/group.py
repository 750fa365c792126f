"""A classic group as its coordinator holds it: members, the state of the rebalance, and who waits for an answer.

A `GroupMetadataValue` is written for each generation that has an assignment, and when the group becomes empty. All
between lives as long as this coordinator leads and is changed by the commands beside this file; after a reload the
group is again as it was written last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.groups.calls import Caller
from tidelog.groups.classic.states import LEGAL_MOVES, State
from tidelog.groups.classic.subscriptions import CONSUMER, Protocols, subscribed_topics, vote
from tidelog.groups.deadlines import Alarm, Timer
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.wire.messages.group_records import GroupMetadataValue, MemberMetadata
from tidelog.wire.messages.join_group import JoinGroupResponseMember

UNKNOWN_MEMBER = ""
NO_GENERATION = -1


@dataclass(slots=True)
class Member:
    """One member. A member with an instance id is static: it keeps its place when its process starts again."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    session: Timer
    assignment: bytes = b""
    # It has no member id yet until its first JoinGroup is answered, and so cannot heartbeat.
    is_new: bool = False
    joining: Caller | None = None
    syncing: Caller | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for the coordinator, so that it need not show that it lives."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)


@dataclass(slots=True)
class ClassicGroup:
    """One group. Members stand in the order in which they joined."""

    group_id: str
    state: State = State.EMPTY
    previous: State = State.DEAD
    state_since_ms: int = NO_TIMESTAMP
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    # Instance id -> member id.
    static_members: dict[str, str] = field(default_factory=dict)
    # Ids that were given out with MEMBER_ID_REQUIRED and have not joined yet.
    pending: dict[str, Timer] = field(default_factory=dict)
    # Members that got this generation and have not asked for their assignment yet.
    unsynced: set[str] = field(default_factory=set)
    # What its consumers subscribe to; None when that is not known.
    topics: frozenset[str] | None = None
    # Who came while the first members of an empty group are waited for, and how long that may still go on.
    joined_in_delay: bool = False
    delay_remaining_ms: int = 0
    joining_count: int = 0
    join_timer: Timer = field(init=False)
    sync_timer: Timer = field(init=False)
    _spoken: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.join_timer = Timer(Alarm.JOIN, self.group_id)
        self.sync_timer = Timer(Alarm.SYNC, self.group_id)

    @property
    def is_consumers(self) -> bool:
        return self.protocol_type == CONSUMER

    @property
    def is_simple(self) -> bool:
        """Whether it only stores offsets and never had a member."""
        return self.protocol_type is None and self.state is State.EMPTY and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that the slowest member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending

    def move(self, state: State, now_ms: int) -> None:
        assert state in LEGAL_MOVES[self.state], f"{self.group_id} cannot go from {self.state} to {state}"
        self.previous, self.state, self.state_since_ms = self.state, state, now_ms

    def speaks(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether someone with these protocols can be a member beside those that are."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._spoken[name] == len(self.members) for name, _ in protocols)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether someone is who it says."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._spoken.update(name for name, _ in member.protocols)
        self.joining_count += member.joining is not None

    def remove(self, member_id: str) -> Member | None:
        """Take out a member; when it led, the oldest that remains does."""
        member = self.members.pop(member_id, None)
        self.unsynced.discard(member_id)
        if member is not None:
            self._spoken.subtract(name for name, _ in member.protocols)
            self.joining_count -= member.joining is not None
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """What a member says of itself when it joins again."""
        self._spoken.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._spoken.update(name for name, _ in protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def replace_static(self, old_id: str, new_id: str, session: Timer) -> Member:
        """A static member came back as a new process: it takes the place of the old one, which is fenced."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        assert member.joining is None and member.syncing is None, "who waits is answered first"
        member.member_id = new_id
        member.session = session
        member.is_new = False
        self.members[new_id] = member
        self.static_members[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        return member

    def wait_to_join(self, member: Member, caller: Caller) -> None:
        self.joining_count += member.joining is None
        member.joining = caller

    def stop_waiting_to_join(self, member: Member) -> Caller | None:
        caller, member.joining = member.joining, None
        self.joining_count -= caller is not None
        return caller

    def elect_joined_leader(self) -> bool:
        """See that the leader is one that has joined; False when nobody has."""
        if self.leader_id is not None and self.members[self.leader_id].joining is not None:
            return True
        joined = next((member for member in self.members.values() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def select_protocol(self) -> str:
        return vote(member.protocols for member in self.members.values())

    def next_generation(self, now_ms: int) -> None:
        """All have joined, or nobody is left."""
        self.generation += 1
        self.unsynced.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move(State.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.move(State.EMPTY, now_ms)
        self.topics = self.subscribed_topics()

    def subscriptions(self) -> list[JoinGroupResponseMember]:
        """What the leader is told, to assign partitions."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        ]

    def to_value(self, assignments: dict[str, bytes], now_ms: int) -> GroupMetadataValue:
        """The record of this generation, or of an empty group."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=now_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name or ""),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    def adopt(self, value: GroupMetadataValue) -> None:
        """This coordinator wrote a record; one with an assignment makes the generation stable."""
        if self.state is not State.COMPLETING_REBALANCE or not value.members or value.generation != self.generation:
            return
        for written in value.members:
            self.members[written.member_id].assignment = bytes(written.assignment)
        self.move(State.STABLE, value.current_state_timestamp)

    def timers(self) -> Iterator[Timer]:
        """All that must be stopped when the group goes."""
        yield self.join_timer
        yield self.sync_timer
        yield from self.pending.values()
        for member in self.members.values():
            yield member.session

    def subscribed_topics(self) -> frozenset[str] | None:
        """What the metadata of the members names, in the protocol of this generation."""
        name = self.protocol_name
        metadata = [] if name is None else [member.metadata(name) for member in self.members.values()]
        return subscribed_topics(self.protocol_type, metadata)

    @classmethod
    def load(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group as a record says it is: stable, or empty."""
        group = cls(
            group_id=group_id,
            state=State.STABLE if value.members else State.EMPTY,
            state_since_ms=value.current_state_timestamp,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader_id=value.leader,
        )
        for written in value.members:
            timeout_ms = written.session_timeout if written.rebalance_timeout == -1 else written.rebalance_timeout
            member = Member(
                member_id=written.member_id,
                instance_id=written.group_instance_id,
                client_id=written.client_id,
                client_host=written.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=written.session_timeout,
                protocols=((value.protocol or "", bytes(written.subscription)),),
                session=Timer(Alarm.SESSION, group_id, written.member_id),
                assignment=bytes(written.assignment),
            )
            group.add(member, value.protocol_type)
        group.topics = group.subscribed_topics()
        return group
