"""Producer ids for InitProducerId, taken from blocks that the controller gives to this broker (KIP-730)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.broker.controller_channel import ControllerChannel
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, ProducerId
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

Waiter = Callable[[ProducerId | ProtocolError], None]


class ProducerIds:
    """Gives each caller an id that nobody else ever gets. Who comes while a block is on its way waits for it."""

    def __init__(self, channel: ControllerChannel, node_id: NodeId, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._waiting: deque[Waiter] = deque()

    def take(self, answer: Waiter) -> None:
        if self._next < self._end and not self._waiting:
            answer(self._pop())
            return
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            self._ask()

    def _pop(self) -> ProducerId:
        taken = ProducerId(self._next)
        self._next += 1
        return taken

    def _ask(self) -> None:
        self._channel.send(AllocateProducerIdsRequest(self._node_id, self._broker_epoch()), self._allocated)

    def _allocated(self, block: AllocateProducerIdsResponse | ProtocolError) -> None:
        waiting, self._waiting = self._waiting, deque()
        if not isinstance(block, ProtocolError) and block.error_code != ErrorCode.NONE:
            block = ProtocolError(ErrorCode(block.error_code))
        if isinstance(block, ProtocolError):
            for answer in waiting:
                answer(block)
            return
        self._next, self._end = block.producer_id_start, block.producer_id_start + block.producer_id_len
        for answer in waiting:
            if self._next < self._end:
                answer(self._pop())
            else:
                self.take(answer)
