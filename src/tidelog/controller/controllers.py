"""Commands on controllers: each registers where it listens and what it supports (KIP-919), so that nobody raises a
feature beyond what one of them could go on with."""

from __future__ import annotations

from tidelog.controller.features import check_supports
from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.metadata.image import ControllerRegistration
from tidelog.metadata.snapshot import controller_record
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.schema import Message


def register_controller(controller: Controller, wanted: ControllerRegistration) -> Result[Message, None]:
    """Register a controller, or a new incarnation of it; one that is registered so already costs no record."""
    if not wanted.endpoints:
        raise ProtocolError(ErrorCode.INVALID_REGISTRATION, "A controller must name where it listens.")
    check_supports(controller.image, f"controller {wanted.controller_id}", wanted.features)
    if controller.image.controllers.get(wanted.controller_id) == wanted:
        return Result([], None)
    return Result([controller_record(wanted)], None)
