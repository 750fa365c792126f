"""DeleteRecords (key 21), v0-v2: moves the start of a partition's log (KIP-107).

Answered when all replicas on live brokers have let go of the records, too, or when the request's time is over.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.broker.timers import Timer, Timers
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, Offset
from tidelog.model.names import is_internal
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


class DeleteRecordsHandler:
    def __init__(self, partitions: LedPartitions, timers: Timers) -> None:
        self._partitions = partitions
        self._timers = timers

    def __call__(self, call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse | None:
        response = DeleteRecordsResponse()
        pending = PendingDelete(call, response, self._partitions.is_alive)
        for topic in request.topics:
            results = [self._delete(topic.name, partition, pending) for partition in topic.partitions]
            response.topics.append(DeleteRecordsTopicResult(topic.name, results))
        return pending.begin(self._timers, request.timeout_ms)

    def _delete(
        self, topic: str, wanted: DeleteRecordsPartition, pending: PendingDelete
    ) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(wanted.partition_index, -1)
        try:
            if is_internal(topic):
                raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            leader = self._partitions.named(topic, wanted.partition_index)
            pending.wait_for(leader, leader.delete_records_before(Offset(wanted.offset)), result)
        except ProtocolError as error:
            result.error_code = error.code
        return result


class PendingDelete:
    """A request that waits until the replicas of its partitions begin where they shall."""

    def __init__(self, call: Call, response: DeleteRecordsResponse, is_alive: Callable[[NodeId], bool]) -> None:
        self._call = call
        self._response = response
        self._is_alive = is_alive
        self._timer: Timer | None = None
        self._missing: list[tuple[PartitionLeader, Offset, DeleteRecordsPartitionResult]] = []

    def wait_for(self, leader: PartitionLeader, start: Offset, result: DeleteRecordsPartitionResult) -> None:
        self._missing.append((leader, start, result))

    def begin(self, timers: Timers, timeout_ms: int) -> DeleteRecordsResponse | None:
        """The answer, if nothing is to be waited for."""
        self._missing = [one for one in self._missing if not self._is_done(*one)]
        if not self._missing:
            return self._response
        for leader, _, _ in self._missing:
            leader.start_watchers[self.low_watermark_moved] = None
        self._timer = timers.call_later(timeout_ms / 1000, self._timed_out)
        return None

    def low_watermark_moved(self) -> None:
        """A replica begins at another offset, or the partition is no longer led here."""
        self._missing = [one for one in self._missing if not self._is_done(*one)]
        if not self._missing and self._timer is not None:
            self._timer.cancel()
            self._end()

    def _is_done(self, leader: PartitionLeader, start: Offset, result: DeleteRecordsPartitionResult) -> bool:
        if leader.failed or leader.resigned:
            code = ErrorCode.KAFKA_STORAGE_ERROR if leader.failed else ErrorCode.NOT_LEADER_OR_FOLLOWER
            result.error_code, result.low_watermark = code, -1
            is_done = True
        else:
            result.low_watermark = leader.low_watermark(self._is_alive)
            is_done = result.low_watermark >= start
        if is_done:
            leader.start_watchers.pop(self.low_watermark_moved, None)
        return is_done

    def _timed_out(self) -> None:
        # Who was waited for may have died meanwhile.
        for leader, start, result in self._missing:
            if not self._is_done(leader, start, result):
                leader.start_watchers.pop(self.low_watermark_moved, None)
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._end()

    def _end(self) -> None:
        self._timer = None
        self._missing = []
        self._call.answer(self._response)
