"""Tells the active controller that this node is a controller, too: where it listens, what it supports (KIP-919).

Looks at each change of the metadata whether it holds this incarnation, and asks until it does. Built by
`quorum_node.py` for nodes with a controller's listener; never waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.controller_channel import ControllerChannel
from tidelog.broker.logs import log
from tidelog.env.network import Timers
from tidelog.metadata.image import ClusterImage, ControllerRegistration
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)

RETRY_SECONDS: Final = 1.0


class ControllerPresence:
    def __init__(
        self,
        registration: ControllerRegistration,
        channel: ControllerChannel,
        image: Callable[[], ClusterImage],
        timers: Timers,
    ) -> None:
        self._registration = registration
        self._channel = channel
        self._image = image
        self._timers = timers
        self._asking = False
        self._stopped = False

    def look(self) -> None:
        """The metadata may have changed."""
        if not self._asking and self._is_missing():
            self._asking = True
            # Not now: whoever publishes metadata is not done, and the controller may be this very node.
            self._timers.call_soon(self._ask)

    def stop(self) -> None:
        self._stopped = True

    def _is_missing(self) -> bool:
        image, own = self._image(), self._registration
        known = image.controllers.get(own.controller_id)
        # A cluster without features has no first records yet.
        return bool(image.features) and (known is None or known.incarnation_id != own.incarnation_id)

    def _ask(self) -> None:
        own = self._registration
        if self._stopped or not self._is_missing():
            self._asking = False
            return
        request = ControllerRegistrationRequest(
            controller_id=own.controller_id,
            incarnation_id=own.incarnation_id,
            listeners=[
                Listener(point.name, point.host, point.port, point.security_protocol)
                for point in own.endpoints.values()
            ],
            features=[Feature(name, levels.lowest, levels.highest) for name, levels in own.features.items()],
        )
        self._channel.send(request, self._answered)

    def _answered(self, response: ControllerRegistrationResponse | ProtocolError) -> None:
        code = response.code if isinstance(response, ProtocolError) else response.error_code
        if code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            # Its own copy of the metadata will show it; until then a look now and then costs nothing.
            self._timers.call_later(RETRY_SECONDS, self._ask)
            return
        log.warning("this controller is not registered", error=ErrorCode(code).name)
        self._timers.call_later(RETRY_SECONDS, self._ask)
