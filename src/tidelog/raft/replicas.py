"""Who takes part in the quorum: replicas, voters, and the set of voters that decides.

A replica is a node and the log directory it keeps, so that a node that lost its disk is not taken for the one that
remembers its votes (KIP-853). Values only; which set is in force when is `voter_history.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.ids import ZERO_UUID, NodeId

# The levels of the feature `kraft.version`: with 0 the voters are a setting, with 1 they are records in the log.
STATIC_VOTERS_LEVEL: Final = 0
DYNAMIC_VOTERS_LEVEL: Final = 1


class ReplicaKey(NamedTuple):
    """A node with the log directory it keeps; the zero directory stands for whichever it is."""

    node_id: NodeId
    directory_id: UUID = ZERO_UUID

    def means(self, replica: ReplicaKey) -> bool:
        """Whether this key stands for that replica: exactly, or because it leaves the directory open."""
        return self.node_id == replica.node_id and self.directory_id in (replica.directory_id, ZERO_UUID)

    def __str__(self) -> str:
        return str(self.node_id) if self.directory_id == ZERO_UUID else f"{self.node_id}@{str(self.directory_id)[-4:]}"


class Endpoint(NamedTuple):
    """Where a voter listens; the machine carries it along and never looks inside."""

    listener: str
    host: str
    port: int


class Voter(NamedTuple):
    """A replica that decides, where it is reached, and which levels of `kraft.version` it knows."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    level_min: int = STATIC_VOTERS_LEVEL
    level_max: int = DYNAMIC_VOTERS_LEVEL


class VoterSet:
    """The voters in force from some offset on. Never changes; a change makes another set."""

    __slots__ = ("_by_id", "majority", "voters")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._by_id: dict[NodeId, Voter] = {voter.key.node_id: voter for voter in sorted(voters)}
        self.voters: tuple[Voter, ...] = tuple(self._by_id.values())
        self.majority = len(self.voters) // 2 + 1

    def __len__(self) -> int:
        return len(self.voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    def __hash__(self) -> int:
        return hash(self.voters)

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key) for voter in self.voters)})"

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self.voters)

    def get(self, node_id: NodeId) -> Voter | None:
        return self._by_id.get(node_id)

    def matching(self, replica: ReplicaKey) -> ReplicaKey | None:
        """The key under which this replica is a voter, if it is one."""
        voter = self._by_id.get(replica.node_id)
        return voter.key if voter is not None and voter.key.means(replica) else None

    def is_only(self, replica: ReplicaKey) -> bool:
        """Whether this replica decides alone."""
        return len(self.voters) == 1 and self.matching(replica) is not None

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set with one more voter, or with one described anew."""
        return VoterSet([*(other for other in self.voters if other.key.node_id != voter.key.node_id), voter])

    def without(self, replica: ReplicaKey) -> VoterSet:
        return VoterSet(voter for voter in self.voters if voter.key != replica)
