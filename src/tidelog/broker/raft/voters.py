"""Voters between the machine's form and that of records and settings, and where each node of the quorum is reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ZERO_UUID, NodeId, Offset
from tidelog.model.listeners import Address
from tidelog.model.listeners import Voter as ConfiguredVoter
from tidelog.raft.effects import ControlRecord, KRaftLevel, LeaderChange, Voters
from tidelog.raft.replicas import STATIC_VOTERS_LEVEL, Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.wire.batch import iter_headers
from tidelog.wire.compiler import decode
from tidelog.wire.control import ControlType, QuorumMessage, read_control_type
from tidelog.wire.messages import control_records as wire
from tidelog.wire.records import read_records


def configured_voters(voters: Iterable[ConfiguredVoter], listener: str) -> VoterSet:
    """The voters of `controller.quorum.voters`: known by id and address, whatever directory they keep."""
    return VoterSet(
        Voter(ReplicaKey(voter.node_id), (Endpoint(listener, voter.host, voter.port),), STATIC_VOTERS_LEVEL)
        for voter in voters
    )


def control_message(record: ControlRecord) -> QuorumMessage:
    """What the machine wants written, as the record that Apache Kafka's tools read."""
    match record:
        case LeaderChange(leader=leader, voters=voters, granting=granting):
            # Version 0, without directories: Apache Kafka's dump reads no other.
            return wire.LeaderChangeMessage(
                leader_id=leader, voters=_change_voters(voters), granting_voters=_change_voters(granting)
            )
        case KRaftLevel(level=level):
            return wire.KRaftVersionRecord(kraft_version=level)
        case Voters(voter_set=voter_set):
            return voters_record(voter_set)


def _change_voters(keys: Iterable[ReplicaKey]) -> list[wire.LeaderChangeMessageVoter]:
    return [wire.LeaderChangeMessageVoter(key.node_id) for key in keys]


def voters_record(voter_set: VoterSet) -> wire.VotersRecord:
    return wire.VotersRecord(
        voters=[
            wire.VotersRecordVoter(
                voter.key.node_id,
                voter.key.directory_id,
                [wire.Endpoint(point.listener, point.host, point.port) for point in voter.endpoints],
                wire.KRaftVersionFeature(voter.level_min, voter.level_max),
            )
            for voter in voter_set.voters
        ]
    )


def voter_set_of(record: wire.VotersRecord) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(NodeId(voter.voter_id), voter.voter_directory_id),
            tuple(Endpoint(point.name, point.host, point.port) for point in voter.endpoints),
            voter.kraft_version_feature.min_supported_version,
            voter.kraft_version_feature.max_supported_version,
        )
        for voter in record.voters
    )


def voter_sets_in(batches: memoryview) -> Iterator[tuple[Offset, VoterSet]]:
    """The voters that control batches among these name, each with the offset of its record."""
    for position, header in iter_headers(batches):
        if not header.is_control:
            continue
        for record in read_records(batches, position):
            if read_control_type(record) is ControlType.KRAFT_VOTERS:
                if record.value is None:
                    raise ProtocolError(ErrorCode.INVALID_RECORD, "A record of voters names none.")
                yield Offset(record.offset), voter_set_of(decode(wire.VotersRecord, 0, record.value))


class Addresses:
    """Where the nodes of the quorum are, as settings, records and answers say; the newest word counts.

    Servers from settings whose ids nobody knows yet have ids of their own, from -2 downwards.
    """

    def __init__(self, voters: VoterSet, bootstrap: Iterable[Address]) -> None:
        self._by_id: dict[NodeId, Address] = {}
        # What settings say about a node, others do not change.
        self._fixed = {voter.key.node_id for voter in voters.voters if voter.key.directory_id == ZERO_UUID}
        self.bootstrap_ids: tuple[NodeId, ...] = ()
        self.learn_voters(voters)
        known = set(self._by_id.values())
        for place, address in enumerate(bootstrap):
            if address not in known:
                unknown = NodeId(-2 - place)
                self._by_id[unknown] = address
                self.bootstrap_ids += (unknown,)

    def learn_voters(self, voters: VoterSet) -> None:
        for voter in voters.voters:
            if voter.endpoints:
                first = voter.endpoints[0]
                self._by_id[voter.key.node_id] = Address(first.host, first.port)

    def learn(self, node_id: int, host: str, port: int) -> None:
        """What a request or answer says about a node."""
        if node_id >= 0 and host and port > 0 and node_id not in self._fixed:
            self._by_id[NodeId(node_id)] = Address(host, port)

    def get(self, node_id: NodeId) -> Address | None:
        return self._by_id.get(node_id)
