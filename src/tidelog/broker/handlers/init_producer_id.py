"""InitProducerId (key 22), v0-v5. v3: an epoch may be bumped (KIP-360). v5: transactions, second protocol (KIP-890).

Idempotent producers get an id of their own. Transactional ids need a transaction coordinator; without one the answer
says so.
"""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.producer_ids import ProducerIds
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerId
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class InitProducerIdHandler:
    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    def __call__(self, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
        if request.transactional_id == "":
            return _refused(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            # Not COORDINATOR_NOT_AVAILABLE: a client would retry that for ever.
            return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

        def answer(outcome: ProducerId | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                # The client tries again; it does not matter where the block of ids is held up.
                call.answer(_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            else:
                call.answer(InitProducerIdResponse(producer_id=outcome))

        self._producer_ids.take(answer)
        return None


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
