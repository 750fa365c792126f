"""InitProducerId (key 22), v0-v6. v3: an existing producer may ask for a new epoch (KIP-360). v4: the error
PRODUCER_FENCED (KIP-588). v5: the error TRANSACTION_ABORTABLE (KIP-890). v6: two-phase commit (KIP-939), not stable
yet."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, bool_, int16, int32, int64, nullable, since, string


class InitProducerIdResponse(Response):
    VERSIONS = "0-6"
    FLEXIBLE = "2+"
    API_KEY = 22

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: Annotated[int64, since("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[int16, since("6+")] = -1


class InitProducerIdRequest(Request):
    VERSIONS = "0-6"
    FLEXIBLE = "2+"
    API_KEY = 22
    RESPONSE = InitProducerIdResponse

    transactional_id: Annotated[string | None, nullable("0+")] = ""
    transaction_timeout_ms: int32 = 0
    producer_id: Annotated[int64, since("3+")] = -1
    producer_epoch: Annotated[int16, since("3+")] = -1
    enable2_pc: Annotated[bool_, since("6+")] = False
    keep_prepared_txn: Annotated[bool_, since("6+")] = False
