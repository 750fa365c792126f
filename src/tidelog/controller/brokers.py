"""Commands on brokers: register, heartbeat, fence who is silent, controlled shutdown, unregister. Now is passed in.

A broker that goes or returns may change any number of partitions, so these results are not atomic: records stand in
such an order that a controller that takes over between two of them can go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.controller import leadership
from tidelog.controller.features import check_supports
from tidelog.controller.sessions import Session
from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    BrokerRegistration,
)
from tidelog.metadata.snapshot import broker_record
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, Offset
from tidelog.wire.messages.metadata_records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from tidelog.wire.schema import Message

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1
RESERVED_DIRECTORIES: Final = frozenset({DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST})

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """What a broker learns about itself."""

    caught_up: bool
    fenced: bool
    should_shut_down: bool = False


def register(
    controller: Controller, wanted: BrokerRegistration, now_ms: int, *, ready: bool = False, clean: bool = False
) -> Result[Message, int]:
    """Register a new incarnation of a broker, or amend the one that is; the reply is the broker's epoch.

    The epoch in `wanted` is the one in which it last stopped cleanly. A broker begins fenced, until heartbeats show
    that it is caught up. One that runs in the controller's own process is so from the start: it says `ready`, and
    `clean` when its earlier incarnation wrote everything down before it stopped.
    """
    known = controller.image.brokers.get(wanted.broker_id)
    _check_directories(controller, wanted)
    check_supports(controller.image, f"broker {wanted.broker_id}", wanted.features)
    records: list[Message] = []
    if known is not None and known.incarnation_id == wanted.incarnation_id:
        epoch, fenced, in_shutdown = known.epoch, known.fenced, known.in_controlled_shutdown
    else:
        if known is not None and controller.sessions.valid(known.broker_id, known.epoch, now_ms):
            raise ProtocolError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"Another broker with id {wanted.broker_id} is registered and alive.",
            )
        # What an earlier incarnation led it may have lost: it leads again only by an election, in a new epoch. One that
        # stopped cleanly has lost nothing, and nobody led in its place: a start costs no record for each partition.
        if not ready:
            lost = known is not None and known.epoch != wanted.epoch
            records += leadership.departed(controller, wanted.broker_id, lost=lost)
        elif clean and known is not None and known.active:
            records += leadership.returned(controller, wanted.broker_id)
        else:
            records += leadership.restarted(controller, wanted.broker_id)
        # The offset of the registration itself, so that no two incarnations share an epoch.
        epoch, fenced, in_shutdown = controller.image.end_offset + len(records), not ready, False
    registration = BrokerRegistration(
        broker_id=wanted.broker_id,
        epoch=epoch,
        incarnation_id=wanted.incarnation_id,
        endpoints=wanted.endpoints,
        features=wanted.features,
        rack=wanted.rack,
        fenced=fenced,
        in_controlled_shutdown=in_shutdown,
        directories=wanted.directories,
    )
    controller.sessions.touch(wanted.broker_id, epoch, now_ms)
    return Result([*records, broker_record(registration)], epoch, atomic=False)


def heartbeat(
    controller: Controller,
    broker_id: NodeId,
    epoch: int,
    now_ms: int,
    *,
    metadata_offset: Offset,
    want_fence: bool = False,
    want_shut_down: bool = False,
) -> Result[Message, HeartbeatReply]:
    """A broker's sign of life, and its wish to serve, to be fenced, or to shut down."""
    broker = check_epoch(controller, broker_id, epoch)
    session = controller.sessions.touch(broker_id, epoch, now_ms)
    session.metadata_offset = metadata_offset
    caught_up = metadata_offset >= epoch
    if broker.fenced:
        if want_fence or want_shut_down or not caught_up:
            return Result([], HeartbeatReply(caught_up, fenced=True, should_shut_down=want_shut_down))
        records = [_change(broker, fenced=UNFENCE), *leadership.returned(controller, broker_id)]
        return Result(records, HeartbeatReply(caught_up, fenced=False), atomic=False)
    if want_fence:
        return _fence(controller, broker, HeartbeatReply(caught_up, fenced=True, should_shut_down=want_shut_down))
    if want_shut_down or broker.in_controlled_shutdown:
        return _shut_down(controller, broker, session, caught_up)
    return Result([], HeartbeatReply(caught_up, fenced=False))


def fence_silent(controller: Controller, now_ms: int) -> Result[Message, NodeId | None]:
    """Fence one broker whose session has expired; the reply is its id, or None when nobody is silent.

    One at a time, so that the next election knows of the fencing before it.
    """
    unfenced = [(broker.broker_id, broker.epoch) for broker in controller.image.unfenced_brokers()]
    silent = controller.sessions.expired(unfenced, now_ms)
    if not silent:
        return Result([], None)
    return _fence(controller, controller.image.brokers[silent[0]], silent[0])


def renew_sessions(controller: Controller, now_ms: int) -> Result[Message, NodeId | None]:
    """Give every broker a new session, for a controller that could not listen to them."""
    for broker in controller.image.unfenced_brokers():
        controller.sessions.grant(broker.broker_id, broker.epoch, now_ms)
    return Result([], None)


def fence_gone(controller: Controller, broker_id: NodeId, epoch: int) -> Result[Message, bool]:
    """Fence a broker whose process is known to be gone; False when that is done, or it has come back meanwhile."""
    broker = controller.image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch or broker.fenced:
        return Result([], False)
    controller.sessions.forget(broker_id)
    return _fence(controller, broker, True)


def elect_leaderless(controller: Controller) -> Result[Message, None]:
    """Finish elections that an earlier controller began, or that a new setting allows. For whoever begins to lead."""
    return Result(list(leadership.leaderless(controller)), None, atomic=False)


def unregister(controller: Controller, broker_id: NodeId) -> Result[Message, None]:
    """Forget a broker. Its replicas stay assigned to it."""
    broker = controller.image.brokers.get(broker_id)
    if broker is None:
        raise ProtocolError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    controller.sessions.forget(broker_id)
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Result([*leadership.departed(controller, broker_id), gone], None, atomic=False)


def check_epoch(controller: Controller, broker_id: NodeId, epoch: int) -> BrokerRegistration:
    """The registration of a broker, when the caller is that incarnation of it."""
    broker = controller.image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise ProtocolError(
            ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not, or no longer, registered with epoch {epoch}."
        )
    return broker


def _fence(controller: Controller, broker: BrokerRegistration, reply: ReplyT) -> Result[Message, ReplyT]:
    records = [*leadership.departed(controller, broker.broker_id), _change(broker, fenced=FENCE)]
    return Result(records, reply, atomic=False)


def _shut_down(
    controller: Controller, broker: BrokerRegistration, session: Session, caught_up: bool
) -> Result[Message, HeartbeatReply]:
    """Controlled shutdown: first lead nothing, then wait until all others know it, then go."""
    stay = HeartbeatReply(caught_up, fenced=False)
    if leadership.leads_any(controller, broker.broker_id):
        begin = () if broker.in_controlled_shutdown else (_change(broker, shutdown=IN_CONTROLLED_SHUTDOWN),)
        records = [*begin, *leadership.departed(controller, broker.broker_id)]
        session.shutdown_offset = Offset(controller.image.offset + len(records))
        return Result(records, stay, atomic=False)
    others = [other.broker_id for other in controller.image.brokers.values() if other.active]
    if broker.in_controlled_shutdown and not controller.sessions.all_have_seen(session.shutdown_offset, others):
        return Result([], stay)
    return _fence(controller, broker, HeartbeatReply(caught_up, fenced=True, should_shut_down=True))


def _change(broker: BrokerRegistration, fenced: int = 0, shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=shutdown
    )


def _check_directories(controller: Controller, wanted: BrokerRegistration) -> None:
    if not wanted.directories:
        raise ProtocolError(ErrorCode.INVALID_REGISTRATION, "A broker must name at least one data directory.")
    if RESERVED_DIRECTORIES.intersection(wanted.directories):
        raise ProtocolError(ErrorCode.INVALID_REGISTRATION, "A data directory has an id that is reserved.")
    if len(set(wanted.directories)) != len(wanted.directories):
        raise ProtocolError(ErrorCode.INVALID_REGISTRATION, "Two data directories have the same id.")
    for other in controller.image.brokers.values():
        shared = set(other.directories).intersection(wanted.directories)
        if shared and other.broker_id != wanted.broker_id:
            raise ProtocolError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {other.broker_id} is already registered with data directory {min(shared)}.",
            )
