"""Control batches: transaction markers, and what the metadata quorum tells itself. Clients skip them."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.wire.compiler import encode
from tidelog.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.wire.records import Record, build_batch
from tidelog.wire.small_batch import build_marker

CONTROL_KEY: Final = Struct(">hh")  # version, type
END_TXN_VALUE: Final = Struct(">hi")  # version, coordinator epoch
CONTROL_KEY_VERSION: Final = 0


class ControlType(IntEnum):
    """What a control record's key says it is."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


QuorumMessage = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

CONTROL_TYPES: Final[dict[type[QuorumMessage], ControlType]] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}


class EndTransaction(NamedTuple):
    """The end of a transaction in one partition."""

    is_commit: bool
    coordinator_epoch: int


def read_control_type(record: Record) -> ControlType | None:
    """The type of a control record; None for one that a newer broker may have written."""
    key = record.key
    if key is None or len(key) < CONTROL_KEY.size:
        raise ProtocolError(ErrorCode.INVALID_RECORD, "A control record has no key that says its type.")
    version, number = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(ErrorCode.INVALID_RECORD, f"A control record's key has version {version}.")
    return ControlType(number) if number in ControlType.__members__.values() else None


def read_end_transaction(record: Record) -> EndTransaction:
    """Read a commit or abort marker."""
    control_type = read_control_type(record)
    value = record.value
    if control_type not in (ControlType.COMMIT, ControlType.ABORT) or value is None or len(value) < END_TXN_VALUE.size:
        raise ProtocolError(ErrorCode.INVALID_RECORD, "The control record is no end of a transaction.")
    _, coordinator_epoch = END_TXN_VALUE.unpack_from(value)
    return EndTransaction(control_type is ControlType.COMMIT, coordinator_epoch)


def build_end_transaction(
    marker: EndTransaction,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    timestamp_ms: int,
    *,
    base_offset: Offset = Offset(0),
    leader_epoch: LeaderEpoch = LeaderEpoch(-1),
) -> bytearray:
    """Make the batch of one marker that ends a producer's transaction in a partition."""
    return build_marker(
        marker.is_commit,
        producer_id,
        producer_epoch,
        marker.coordinator_epoch,
        timestamp_ms,
        base_offset,
        leader_epoch,
    )


def build_quorum_control(
    messages: list[QuorumMessage], base_offset: Offset, leader_epoch: LeaderEpoch, timestamp_ms: int
) -> bytes:
    """Make a control batch of the metadata log, such as the one with which a new leader begins its epoch."""
    records = [
        Record(
            base_offset + index,
            timestamp_ms,
            CONTROL_KEY.pack(CONTROL_KEY_VERSION, CONTROL_TYPES[type(message)]),
            encode(message, message.version),
        )
        for index, message in enumerate(messages)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)
