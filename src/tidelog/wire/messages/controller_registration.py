"""ControllerRegistration (key 70), v0, KIP-919."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, bool_, int16, int32, nullable, string, uint16, uuid


class ControllerRegistrationResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 70

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class Listener(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Message):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class ControllerRegistrationRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 70
    RESPONSE = ControllerRegistrationResponse

    controller_id: int32 = 0
    incarnation_id: uuid = ZERO_UUID
    zk_migration_ready: bool_ = False
    listeners: list[Listener] = []
    features: list[Feature] = []
