"""A broker's life as the controller sees it: register, catch up, serve, tell that it is alive, leave in good order.

Drives the requests BrokerRegistration and BrokerHeartbeat. The node tells it how far its metadata is; it tells the node
when it is a broker that clients are sent to, and when it may go.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final
from uuid import UUID

import msgspec

from tidelog.broker.controller_channel import ControllerChannel
from tidelog.broker.logs import log
from tidelog.env.network import Timer, Timers
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

# Signs of life have a connection of their own: when it breaks, that means something.
PURPOSE: Final = "heartbeat"
RETRY_SECONDS: Final = 0.1
# While a broker waits for something of the controller (to be let in, to be let go) it asks this often.
EAGER_SECONDS: Final = 0.05
LEAVE_PATIENCE_MS: Final = 1500
NO_EPOCH: Final = -1


class Stage(Enum):
    """NEW: not registered. JOINING: registered, fenced. SERVING: clients are sent here. LEAVING: may it go? GONE."""

    NEW = "new"
    JOINING = "joining"
    SERVING = "serving"
    LEAVING = "leaving"
    GONE = "gone"


class BrokerLife:
    def __init__(
        self,
        channel: ControllerChannel,
        cluster_id: str,
        timers: Timers,
        image: Callable[[], ClusterImage],
        *,
        heartbeat_ms: int,
        new_id: Callable[[], UUID],
        caught_up: Callable[[], None],
        serving: Callable[[], None],
    ) -> None:
        """`caught_up` is called once, when the metadata holds this broker's registration: then `ready` is waited for.

        `serving` is called when the cluster has let it in.
        """
        self._channel = channel
        self._cluster_id = cluster_id
        self._timers = timers
        self._image = image
        self._heartbeat_seconds = heartbeat_ms / 1000
        self._new_id = new_id
        self._caught_up = caught_up
        self._serving = serving
        self._registration: BrokerRegistration | None = None
        self._timer: Timer | None = None
        self._asking = False
        self._is_caught_up = False
        self._is_ready = False
        self._left: Callable[[], None] | None = None
        self.stage = Stage.NEW
        self.epoch = NO_EPOCH

    # --- joining ------------------------------------------------------------------------------------------------------

    def registered_at_once(self, registration: BrokerRegistration, epoch: int) -> None:
        """The node's own controller has registered it, ready to serve: it is the only node there is."""
        self._registration = registration
        self.epoch = epoch
        self.stage = Stage.SERVING
        self._is_caught_up = self._is_ready = True
        self._again(self._heartbeat_seconds)

    def join(self, registration: BrokerRegistration) -> None:
        """Register, and go on until the cluster lets this broker in."""
        self._registration = registration
        self._register()

    def _register(self) -> None:
        known = self._registration
        assert known is not None
        if self.stage is Stage.GONE:
            return
        self.stage = Stage.NEW
        request = BrokerRegistrationRequest(
            broker_id=known.broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=known.incarnation_id,
            listeners=[
                Listener(point.name, point.host, point.port, point.security_protocol)
                for point in known.endpoints.values()
            ],
            features=[Feature(name, levels.lowest, levels.highest) for name, levels in known.features.items()],
            rack=known.rack,
            log_dirs=list(known.directories),
            previous_broker_epoch=known.epoch,
        )
        self._channel.send(request, self._registered, purpose=PURPOSE)

    def _registered(self, response: BrokerRegistrationResponse | ProtocolError) -> None:
        if self.stage is Stage.GONE:
            return
        code = response.code if isinstance(response, ProtocolError) else response.error_code
        if code != ErrorCode.NONE:
            # An earlier run of this broker may still count as alive.
            log.warning("the controller does not register this broker", error=ErrorCode(code).name)
            self._timers.call_later(RETRY_SECONDS * 5, self._register)
            return
        assert isinstance(response, BrokerRegistrationResponse)
        self.epoch = response.broker_epoch
        self.stage = Stage.JOINING
        self.metadata_grew(self._image())
        self._beat()

    def metadata_grew(self, image: ClusterImage) -> None:
        """More metadata is committed and about to be applied here."""
        if any(broker.in_controlled_shutdown and not broker.fenced for broker in image.brokers.values()):
            # One that wants to go waits until all others know who leads in its place: tell it when that is done.
            self._timers.call_soon(self._beat)
        if self.stage is Stage.JOINING and not self._is_caught_up and self._image().offset >= self.epoch:
            self._is_caught_up = True
            self._caught_up()

    def ready(self) -> None:
        """This node has done all that its metadata says and listens: it wants to be let in."""
        self._is_ready = True
        if self.stage is Stage.JOINING:
            self._beat()

    # --- signs of life ------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Tell that it is alive, now; the next time comes by itself."""
        if self._asking or self.epoch == NO_EPOCH or self.stage in (Stage.NEW, Stage.GONE):
            return
        known = self._registration
        if known is None:
            return
        self._cancel()
        self._asking = True
        request = BrokerHeartbeatRequest(
            broker_id=known.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._image().offset,
            want_fence=self.stage is Stage.JOINING and not self._is_ready,
            want_shut_down=self.stage is Stage.LEAVING,
        )
        patience_ms = LEAVE_PATIENCE_MS if self.stage is Stage.LEAVING else int(self._heartbeat_seconds * 1000)
        self._channel.send(request, self._beaten, purpose=PURPOSE, timeout_ms=patience_ms)

    def _beaten(self, response: BrokerHeartbeatResponse | ProtocolError) -> None:
        self._asking = False
        if self.stage is Stage.GONE:
            return
        code = response.code if isinstance(response, ProtocolError) else response.error_code
        if code == ErrorCode.STALE_BROKER_EPOCH and self.stage is Stage.LEAVING:
            # Others lead already what it led.
            self._go()
            return
        if code == ErrorCode.STALE_BROKER_EPOCH and self._registration is not None:
            # It was forgotten, or taken for dead and replaced: it comes back as another incarnation of itself.
            self._registration = msgspec.structs.replace(
                self._registration, incarnation_id=self._new_id(), epoch=self.epoch
            )
            self._register()
            return
        if isinstance(response, ProtocolError) and self.stage is Stage.LEAVING:
            # There is no controller any more that could let it go: the whole cluster stops.
            self._go()
            return
        if isinstance(response, ProtocolError) or code != ErrorCode.NONE:
            self._again(RETRY_SECONDS)
            return
        if self.stage is Stage.LEAVING:
            if response.should_shut_down:
                self._go()
            else:
                self._again(EAGER_SECONDS)
            return
        if self.stage is Stage.JOINING and not response.is_fenced:
            self.stage = Stage.SERVING
            self._serving()
        self._again(EAGER_SECONDS if self.stage is Stage.JOINING else self._heartbeat_seconds)

    def _again(self, seconds: float) -> None:
        self._cancel()
        self._timer = self._timers.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._beat()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- leaving ------------------------------------------------------------------------------------------------------

    def leave(self, left: Callable[[], None]) -> None:
        """Have others lead what this broker leads, then call `left`. The caller sets the limit of its patience."""
        if self.stage is not Stage.SERVING or self._registration is None:
            self.stop()
            left()
            return
        self.stage = Stage.LEAVING
        self._left = left
        self._cancel()
        self._beat()

    def _go(self) -> None:
        left, self._left = self._left, None
        self.stop()
        if left is not None:
            left()

    def stop(self) -> None:
        self.stage = Stage.GONE
        self._cancel()
