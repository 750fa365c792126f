"""The settings of the clients as types, for editors and type checkers; `options.py` is what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from tidelog.client.core.buffer_policy import BufferFullPolicy
from tidelog.wire.compression import Compression


class SecuritySettings(TypedDict, total=False):
    """How connections are protected. `ssl_context` is an ssl.SSLContext, instead of the files."""

    security_protocol: str
    ssl_context: Any
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_cadata: str | None
    ssl_certdata: str | None
    ssl_keydata: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: str | None


class ClientSettings(SecuritySettings, total=False):
    """Settings of every client."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    metadata_max_age_ms: int
    socket_connection_setup_timeout_ms: int


class ProducerSettings(ClientSettings, total=False):
    """Settings of a producer."""

    acks: int | str
    compression_type: Compression | str
    compression_level: int | None
    linger_ms: float
    batch_size: int
    buffer_memory: int
    buffer_full: BufferFullPolicy | str
    max_block_ms: float
    max_request_size: int
    delivery_timeout_ms: float
    retries: int
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    partitioner: Any
    key_serializer: Any
    value_serializer: Any
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    allow_auto_create_topics: bool


class ConsumerSettings(ClientSettings, total=False):
    """Settings of a consumer."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    assignors: Any
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    isolation_level: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    client_rack: str
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    key_deserializer: Any
    value_deserializer: Any


class AdminSettings(ClientSettings, total=False):
    """Settings of an admin client."""

    default_api_timeout_ms: int
