"""The answers of a coordinator that cannot do as it is asked: it does not lead, is still loading, or could not write.

The edge calls `refusal` for a command that was not run. For one that was run, and whose records were not or never will
be committed, it calls `withdrawn`: its replies, to whomever they are, become refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidelog.groups.calls import Reply
from tidelog.groups.classic.answers import join_error, sync_error
from tidelog.groups.classic.leave import BATCH_VERSION, leave_answer, leaving
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.wire.schema import Request, Response

# What a failed write means to members: another coordinator, or this one a little later, will do.
WRITE_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def refusal(request: Request, version: int, error: ErrorCode) -> Response:
    """The response to a request on one group that says why it was not carried out."""
    return _REFUSALS[type(request)](request, version, WRITE_ERRORS.get(error, error))


def withdrawn(replies: Sequence[Reply], error: ErrorCode) -> list[Reply]:
    """Replies that were decided but never became safe, as refusals. They can be written in every version."""
    told = WRITE_ERRORS.get(error, error)
    return [Reply(waiter, _withdrawn(response, told)) for waiter, response in replies]


def _withdrawn(response: Response, error: ErrorCode) -> Response:
    match response:
        case JoinGroupResponse():
            return JoinGroupResponse(error_code=error, member_id=response.member_id)
        case SyncGroupResponse():
            return sync_error(error)
        case LeaveGroupResponse():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            for topic in response.topics:
                for partition in topic.partitions:
                    partition.error_code = error
            return response
        case ConsumerGroupHeartbeatResponse() | HeartbeatResponse() | OffsetDeleteResponse():
            return type(response)(error_code=error)
        case _:
            raise AssertionError(f"no command on one group replies with {type(response).__name__}")


def _join(request: JoinGroupRequest, version: int, error: ErrorCode) -> JoinGroupResponse:
    return join_error(request.member_id, error, version)


def _sync(request: SyncGroupRequest, version: int, error: ErrorCode) -> SyncGroupResponse:
    return sync_error(error)


def _heartbeat(request: HeartbeatRequest, version: int, error: ErrorCode) -> HeartbeatResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # Its session begins when all is loaded: until then every sign of life is fine.
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=error)


def _leave(request: LeaveGroupRequest, version: int, error: ErrorCode) -> LeaveGroupResponse:
    if version >= BATCH_VERSION:
        return LeaveGroupResponse(error_code=error)
    return leave_answer(leaving(request, version), [error], version)


def _commit(request: OffsetCommitRequest, version: int, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _transaction_commit(request: TxnOffsetCommitRequest, version: int, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete_offsets(request: OffsetDeleteRequest, version: int, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)


def _consumer_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, error: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)


_REFUSALS: Final[dict[type[Request], Callable[[Any, int, ErrorCode], Response]]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _transaction_commit,
    OffsetDeleteRequest: _delete_offsets,
    ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
}
