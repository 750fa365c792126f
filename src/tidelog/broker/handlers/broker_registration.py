"""BrokerRegistration (key 62), v0-v4: a broker joins the cluster, fenced at first (KIP-631). v2: log directories
(KIP-858). v3: the epoch of a clean stop (KIP-966)."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.brokers import register
from tidelog.metadata.image import BrokerRegistration
from tidelog.metadata.told import endpoints_of, features_of
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


class BrokerRegistrationHandler:
    def __init__(self, commands: Commands, cluster_id: str, now_ms: Callable[[], int]) -> None:
        self._commands = commands
        self._cluster_id = cluster_id
        self._now_ms = now_ms

    def __call__(self, call: Call, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse | None:
        if request.cluster_id != self._cluster_id:
            return BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if request.is_migrating_zk_broker:
            return BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REGISTRATION)
        wanted = registration_of(request)

        def answer(outcome: int | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(BrokerRegistrationResponse(error_code=outcome.code))
            else:
                call.answer(BrokerRegistrationResponse(broker_epoch=outcome))

        self._commands.submit(lambda controller: register(controller, wanted, self._now_ms()), answer)
        return None


def registration_of(request: BrokerRegistrationRequest) -> BrokerRegistration:
    """What a broker says about itself."""
    return BrokerRegistration(
        broker_id=NodeId(request.broker_id),
        epoch=request.previous_broker_epoch,
        incarnation_id=request.incarnation_id,
        endpoints=endpoints_of(request.listeners),
        features=features_of(request.features),
        rack=request.rack,
        directories=tuple(request.log_dirs),
    )
