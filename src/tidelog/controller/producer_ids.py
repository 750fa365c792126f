"""Blocks of producer ids, handed to brokers, so that no id is ever given twice in the life of a cluster (KIP-730)."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.controller.brokers import check_epoch
from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, ProducerId
from tidelog.wire.messages.metadata_records import ProducerIdsRecord
from tidelog.wire.schema import Message

BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """The ids from `first` on that one broker may give out."""

    first: ProducerId
    size: int


def allocate(controller: Controller, broker_id: NodeId, broker_epoch: int) -> Result[Message, ProducerIdBlock]:
    """Give the next block to a broker."""
    check_epoch(controller, broker_id, broker_epoch)
    first = controller.image.next_producer_id
    if first > PRODUCER_ID_MAX - BLOCK_SIZE:
        raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids there are have been given out.")
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return Result([record], ProducerIdBlock(first, BLOCK_SIZE))
