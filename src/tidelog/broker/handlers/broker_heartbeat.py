"""BrokerHeartbeat (key 63), v0-v1: a broker is alive, wants to serve, to be fenced, or to shut down (KIP-631)."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.brokers import HeartbeatReply, heartbeat
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId, Offset
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerHeartbeatHandler:
    def __init__(self, commands: Commands, now_ms: Callable[[], int], heard: Callable[[NodeId, Call], None]) -> None:
        """`heard` is told which connection a broker's sign of life came by."""
        self._commands = commands
        self._now_ms = now_ms
        self._heard = heard

    def __call__(self, call: Call, request: BrokerHeartbeatRequest) -> None:
        self._heard(NodeId(request.broker_id), call)

        def answer(outcome: HeartbeatReply | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(BrokerHeartbeatResponse(error_code=outcome.code))
                return
            call.answer(
                BrokerHeartbeatResponse(
                    is_caught_up=outcome.caught_up,
                    is_fenced=outcome.fenced,
                    should_shut_down=outcome.should_shut_down,
                )
            )

        self._commands.submit(
            lambda controller: heartbeat(
                controller,
                NodeId(request.broker_id),
                request.broker_epoch,
                self._now_ms(),
                metadata_offset=Offset(request.current_metadata_offset),
                want_fence=request.want_fence,
                want_shut_down=request.want_shut_down,
            ),
            answer,
        )
