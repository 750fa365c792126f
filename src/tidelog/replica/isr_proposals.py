"""The changes of ISRs that the leaders on this broker ask for, as AlterPartition requests, one at a time.

Pure: the broker's edge sends `request` to the controller and hands back what it answers. Partitions that come up
meanwhile go together into the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicId
from tidelog.replica.in_sync import EligibleEpoch, IsrProposal
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

Key = tuple[TopicId, PartitionIndex]


class IsrProposals:
    def __init__(
        self,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        eligible: EligibleEpoch,
        now_ms: Callable[[], int],
        on_ready: Callable[[], None],
    ) -> None:
        """`on_ready` is called when there is something to send and nothing on its way."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._eligible = eligible
        self._now_ms = now_ms
        self._on_ready = on_ready
        self._waiting: dict[Key, tuple[PartitionLeader, IsrProposal]] = {}
        self._sent: dict[Key, tuple[PartitionLeader, IsrProposal]] = {}

    def look_at(self, leader: PartitionLeader) -> None:
        """Ask for another ISR, if it is time to."""
        if leader.resigned or leader.failed:
            return
        proposal = leader.in_sync.propose(
            leader.topic_id,
            leader.index,
            leader.high_watermark,
            leader.log.end_offset,
            self._now_ms(),
            self._broker_epoch(),
            self._eligible,
        )
        # Nobody may hold the high watermark back any longer than it keeps up.
        leader.isr_changed()
        if proposal is not None:
            self._waiting[leader.topic_id, leader.index] = (leader, proposal)
            if not self._sent:
                self._on_ready()

    def look_at_all(self, leaders: Iterable[PartitionLeader]) -> None:
        """Find followers that fell behind. Called now and then: nothing else tells of what does not happen."""
        for leader in leaders:
            if leader.in_sync.followers:
                self.look_at(leader)

    def request(self) -> AlterPartitionRequest | None:
        """Everything that waits; None when nothing does, or a request is still on its way."""
        if self._sent:
            return None
        self._sent = {key: one for key, one in self._waiting.items() if _still_wanted(*one)}
        self._waiting = {}
        if not self._sent:
            return None
        topics: dict[TopicId, AlterPartitionRequestTopicData] = {}
        for _, proposal in self._sent.values():
            topic = topics.setdefault(proposal.topic_id, AlterPartitionRequestTopicData(proposal.topic_id, []))
            topic.partitions.append(_partition(proposal))
        return AlterPartitionRequest(self._node_id, self._broker_epoch(), list(topics.values()))

    def failed(self) -> None:
        """No answer came, or it says nothing of the partitions: ask again, whether it was done or not."""
        self._waiting = {**self._sent, **self._waiting}
        self._sent = {}

    def answered(self, response: AlterPartitionResponse) -> bool:
        """Take in what the controller says; False when it is to be asked again, a little later."""
        if response.error_code:
            self.failed()
            return False
        sent, self._sent = self._sent, {}
        for topic in response.topics:
            for data in topic.partitions:
                found = sent.pop((topic.topic_id, PartitionIndex(data.partition_index)), None)
                if found is not None:
                    self._take(*found, data)
        self._waiting = {**sent, **self._waiting}
        return not self._waiting

    def _take(self, leader: PartitionLeader, proposal: IsrProposal, data: AlterPartitionResponsePartitionData) -> None:
        if leader.resigned:
            return
        in_sync = leader.in_sync
        if data.error_code:
            if in_sync.refused(proposal, ErrorCode(data.error_code)):
                self._waiting[proposal.topic_id, proposal.partition] = (leader, proposal)
            return
        if data.leader_epoch == leader.epoch:
            in_sync.accepted(proposal, data.partition_epoch, tuple(map(NodeId, data.isr)), self._now_ms())
            leader.isr_changed()
            self.look_at(leader)


def _still_wanted(leader: PartitionLeader, proposal: IsrProposal) -> bool:
    return not leader.resigned and leader.in_sync.pending is proposal


def _partition(proposal: IsrProposal) -> AlterPartitionRequestPartitionData:
    return AlterPartitionRequestPartitionData(
        partition_index=proposal.partition,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[BrokerState(node, epoch) for node, epoch in proposal.isr],
        partition_epoch=proposal.partition_epoch,
    )
