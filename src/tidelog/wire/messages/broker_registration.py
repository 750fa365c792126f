"""BrokerRegistration (key 62), v0-v4, KIP-631. v1: migration from ZooKeeper (KIP-866). v2: log directories (KIP-858).
v3: the epoch before a clean shutdown (KIP-966). v4: features whose minimum is 0."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    uint16,
    uuid,
)


class BrokerRegistrationResponse(Response):
    VERSIONS = "0-4"
    FLEXIBLE = "0+"
    API_KEY = 62

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1


class Listener(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Message):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class BrokerRegistrationRequest(Request):
    VERSIONS = "0-4"
    FLEXIBLE = "0+"
    API_KEY = 62
    RESPONSE = BrokerRegistrationResponse

    broker_id: int32 = 0
    cluster_id: string = ""
    incarnation_id: uuid = ZERO_UUID
    listeners: list[Listener] = []
    features: list[Feature] = []
    rack: Annotated[string | None, nullable("0+")] = ""
    is_migrating_zk_broker: Annotated[bool_, since("1+")] = False
    log_dirs: Annotated[list[uuid], since("2+"), ignorable] = []
    previous_broker_epoch: Annotated[int64, since("3+"), ignorable] = -1
