"""What the machine wants sent, as requests of the protocol, and what their answers mean to it.

Used by `driver.py`. Values to values: nothing is sent here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.broker.raft.metadata_log import METADATA_PARTITION, check_fetched
from tidelog.broker.raft.voters import voter_sets_in
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import Endpoint, Voter
from tidelog.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, update_raft_voter, vote
from tidelog.wire.schema import Request, Response

METADATA_TOPIC_ID: Final = UUID(int=1)
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
TOPIC: Final = METADATA_PARTITION.topic

Send = do.SendVote | do.SendBeginEpoch | do.SendEndEpoch | do.SendFetch | do.SendFetchSnapshot | do.SendUpdateVoter


@dataclass(frozen=True, slots=True)
class Sender:
    """Who this node is, to those it writes to."""

    cluster_id: str
    me: Voter

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return self.me.endpoints

    def request(self, effect: Send) -> Request:
        """The request that this effect asks for."""
        match effect:
            case do.SendVote():
                return self._vote(effect)
            case do.SendBeginEpoch():
                return self._begin_epoch(effect)
            case do.SendEndEpoch():
                return self._end_epoch(effect)
            case do.SendFetch():
                return self._fetch(effect)
            case do.SendFetchSnapshot():
                return self._fetch_snapshot(effect)
            case do.SendUpdateVoter():
                return self._update_voter(effect)

    def _vote(self, effect: do.SendVote) -> Request:
        partition = vote.VoteRequestPartitionData(
            partition_index=0,
            replica_epoch=effect.epoch,
            replica_id=self.me.key.node_id,
            replica_directory_id=self.me.key.directory_id,
            voter_directory_id=effect.to.directory_id,
            last_offset_epoch=effect.last_epoch,
            last_offset=effect.end_offset,
            pre_vote=effect.pre_vote,
        )
        topics = [vote.VoteRequestTopicData(TOPIC, [partition])]
        return vote.VoteRequest(cluster_id=self.cluster_id, voter_id=effect.to.node_id, topics=topics)

    def _begin_epoch(self, effect: do.SendBeginEpoch) -> Request:
        partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
            partition_index=0,
            voter_directory_id=effect.to.directory_id,
            leader_id=self.me.key.node_id,
            leader_epoch=effect.epoch,
        )
        return begin_quorum_epoch.BeginQuorumEpochRequest(
            cluster_id=self.cluster_id,
            voter_id=effect.to.node_id,
            topics=[begin_quorum_epoch.BeginQuorumEpochRequestTopicData(TOPIC, [partition])],
            leader_endpoints=[
                begin_quorum_epoch.LeaderEndpoint(point.listener, point.host, point.port) for point in self.endpoints
            ],
        )

    def _end_epoch(self, effect: do.SendEndEpoch) -> Request:
        partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
            partition_index=0,
            leader_id=self.me.key.node_id,
            leader_epoch=effect.epoch,
            preferred_successors=[key.node_id for key in effect.successors],
            preferred_candidates=[
                end_quorum_epoch.ReplicaInfo(key.node_id, key.directory_id) for key in effect.successors
            ],
        )
        return end_quorum_epoch.EndQuorumEpochRequest(
            cluster_id=self.cluster_id,
            topics=[end_quorum_epoch.EndQuorumEpochRequestTopicData(TOPIC, [partition])],
            leader_endpoints=[
                end_quorum_epoch.LeaderEndpoint(point.listener, point.host, point.port) for point in self.endpoints
            ],
        )

    def _fetch(self, effect: do.SendFetch) -> Request:
        partition = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=effect.epoch,
            fetch_offset=effect.offset,
            last_fetched_epoch=effect.last_epoch,
            partition_max_bytes=FETCH_BYTES_MAX,
            replica_directory_id=self.me.key.directory_id,
            high_watermark=effect.high_watermark,
        )
        return fetch.FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=fetch.ReplicaState(self.me.key.node_id),
            max_wait_ms=effect.wait_max_ms,
            max_bytes=FETCH_BYTES_MAX,
            topics=[fetch.FetchTopic(TOPIC, METADATA_TOPIC_ID, [partition])],
        )

    def _fetch_snapshot(self, effect: do.SendFetchSnapshot) -> Request:
        partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=effect.epoch,
            snapshot_id=fetch_snapshot.SnapshotId(effect.snapshot.end_offset, effect.snapshot.epoch),
            position=effect.position,
            replica_directory_id=self.me.key.directory_id,
        )
        return fetch_snapshot.FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=self.me.key.node_id,
            max_bytes=FETCH_BYTES_MAX,
            topics=[fetch_snapshot.FetchSnapshotRequestTopicSnapshot(TOPIC, [partition])],
        )

    def _update_voter(self, effect: do.SendUpdateVoter) -> Request:
        voter = effect.voter
        return update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=self.cluster_id,
            current_leader_epoch=effect.epoch,
            voter_id=voter.key.node_id,
            voter_directory_id=voter.key.directory_id,
            listeners=[update_raft_voter.Listener(point.listener, point.host, point.port) for point in voter.endpoints],
            kraft_version_feature=update_raft_voter.KRaftVersionFeature(voter.level_min, voter.level_max),
        )


def event_of(effect: Send, source: NodeId, response: Response) -> on.Event:
    """What an answer means; one that makes no sense is none."""
    try:
        return _event_of(effect, source, response)
    except (IndexError, ValueError, ProtocolError):
        return on.RequestFailed(effect.request_id)


def _event_of(effect: Send, source: NodeId, response: Response) -> on.Event:
    request_id = effect.request_id
    match response:
        case vote.VoteResponse(error_code=0):
            voted = response.topics[0].partitions[0]
            return on.VoteAnswered(
                request_id, source, ErrorCode(voted.error_code), *_leader(voted), granted=voted.vote_granted
            )
        case begin_quorum_epoch.BeginQuorumEpochResponse(error_code=0):
            begun = response.topics[0].partitions[0]
            return on.BeginEpochAnswered(request_id, source, ErrorCode(begun.error_code), *_leader(begun))
        case end_quorum_epoch.EndQuorumEpochResponse(error_code=0):
            ended = response.topics[0].partitions[0]
            return on.EndEpochAnswered(request_id, source, ErrorCode(ended.error_code), *_leader(ended))
        case fetch.FetchResponse(error_code=0):
            return _fetched(request_id, source, response.responses[0].partitions[0])
        case fetch_snapshot.FetchSnapshotResponse(error_code=0):
            return _snapshot_fetched(request_id, source, response.topics[0].partitions[0])
        case update_raft_voter.UpdateRaftVoterResponse():
            leader = response.current_leader
            return on.UpdateVoterAnswered(
                request_id,
                source,
                ErrorCode(response.error_code),
                LeaderEpoch(leader.leader_epoch),
                NodeId(leader.leader_id),
            )
        case _:
            return on.RequestFailed(request_id)


def _leader(
    data: vote.VoteResponsePartitionData
    | begin_quorum_epoch.BeginQuorumEpochResponsePartitionData
    | end_quorum_epoch.EndQuorumEpochResponsePartitionData,
) -> tuple[LeaderEpoch, NodeId]:
    return LeaderEpoch(data.leader_epoch), NodeId(data.leader_id)


def _fetched(request_id: int, source: NodeId, data: fetch.PartitionData) -> on.FetchAnswered:
    diverging = data.diverging_epoch
    snapshot = data.snapshot_id
    records = memoryview(data.records) if isinstance(data.records, bytes | bytearray | memoryview) else memoryview(b"")
    batches, base, end, last_epoch = check_fetched(records)
    return on.FetchAnswered(
        request_id,
        source,
        ErrorCode(data.error_code),
        LeaderEpoch(data.current_leader.leader_epoch),
        NodeId(data.current_leader.leader_id),
        Offset(data.high_watermark),
        EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset)) if diverging.epoch >= 0 else None,
        SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch)) if snapshot.epoch >= 0 else None,
        batches,
        base,
        end,
        last_epoch,
        tuple(voter_sets_in(batches)),
    )


def _snapshot_fetched(
    request_id: int, source: NodeId, data: fetch_snapshot.FetchSnapshotResponsePartitionSnapshot
) -> on.SnapshotAnswered:
    piece = bytes(data.unaligned_records) if isinstance(data.unaligned_records, bytes | memoryview) else b""
    return on.SnapshotAnswered(
        request_id,
        source,
        ErrorCode(data.error_code),
        LeaderEpoch(data.current_leader.leader_epoch),
        NodeId(data.current_leader.leader_id),
        SnapshotId(Offset(data.snapshot_id.end_offset), LeaderEpoch(data.snapshot_id.epoch)),
        data.size,
        data.position,
        len(piece),
        piece,
    )
