"""Every setting of a broker by name, and `BrokerConfig`: their values for one broker, from Kafka's property names.

Called once at start with the properties file, and again with what was changed while the broker runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidelog.model.accepted_settings import ACCEPTED_SETTINGS
from tidelog.model.cluster_settings import CLUSTER_SETTINGS
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.model.listeners import (
    Address,
    ListenerAddress,
    SecurityProtocol,
    Voter,
    parse_address,
    parse_counts,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from tidelog.model.server_settings import SERVER_SETTINGS
from tidelog.model.settings import Setting, SettingValue, UpdateMode, invalid, parse_value
from tidelog.model.topic_settings import UNLIMITED, TopicConfig, topic_defaults

HONOURED_SETTINGS: Final[dict[str, Setting]] = SERVER_SETTINGS | CLUSTER_SETTINGS
BROKER_SETTINGS: Final[dict[str, Setting]] = dict(sorted((HONOURED_SETTINGS | ACCEPTED_SETTINGS).items()))

# What a broker is that nobody configured: the one node of its own cluster.
DEFAULT_NODE_ID: Final = NodeId(1)
DEFAULT_ROLES: Final = ("broker", "controller")
# Settings of single listeners ("listener.name.internal.ssl.key.password"), and ours that Kafka does not have.
OTHER_PREFIXES: Final = ("listener.name.", "tidelog.")


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one broker that this code honours. What topics inherit is in `topic_defaults`."""

    topic_defaults: TopicConfig
    # As they were given, for DescribeConfigs.
    properties: dict[str, str]
    # Given, but nobody knows them; and given and known, but without effect. Worth a warning, both.
    unknown_keys: tuple[str, ...]
    idle_keys: tuple[str, ...]

    node_id: NodeId
    process_roles: tuple[str, ...]
    broker_rack: str | None
    listeners: tuple[ListenerAddress, ...]
    advertised_listeners: tuple[ListenerAddress, ...]
    listener_security_protocol_map: dict[str, SecurityProtocol]
    inter_broker_listener_name: str
    security_inter_broker_protocol: str
    controller_listener_names: tuple[str, ...]
    socket_request_max_bytes: int
    socket_receive_buffer_bytes: int
    socket_send_buffer_bytes: int
    socket_listen_backlog_size: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    max_connection_creation_rate: int
    queued_max_requests: int
    queued_max_request_bytes: int
    max_request_partition_size_limit: int
    request_timeout_ms: int
    message_max_bytes: int
    fetch_max_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    max_incremental_fetch_session_cache_slots: int
    min_insync_replicas: int
    producer_id_expiration_ms: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    unclean_leader_election_enable: bool
    log_dirs: tuple[str, ...]
    metadata_log_dir: str | None
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_dir_failure_timeout_ms: int
    num_recovery_threads_per_data_dir: int
    log_retention_check_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    num_replica_fetchers: int
    replica_selector_class: str | None
    controller_quorum_voters: tuple[Voter, ...]
    controller_quorum_bootstrap_servers: tuple[Address, ...]
    controller_quorum_election_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_append_linger_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    controlled_shutdown_enable: bool
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    metadata_max_idle_interval_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_min_session_timeout_ms: int
    group_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int
    offset_metadata_max_bytes: int
    transaction_max_timeout_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transactional_id_expiration_ms: int
    transaction_partition_verification_enable: bool
    transaction_two_phase_commit_enable: bool

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Read Kafka's property names, or raise INVALID_CONFIG that names the key, its value and what is allowed."""
        values = broker_values(properties)
        derived = _derived(values, properties)
        for name, value in values.items():
            derived.setdefault(BROKER_SETTINGS[name].field, value)
        config = cls(
            topic_defaults=topic_defaults(values),
            properties=dict(properties),
            unknown_keys=tuple(
                name for name in properties if name not in BROKER_SETTINGS and not name.startswith(OTHER_PREFIXES)
            ),
            idle_keys=tuple(name for name in properties if name in ACCEPTED_SETTINGS),
            **{field: derived[field] for field in SETTING_FIELDS},
        )
        _check(config)
        return config

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def client_listeners(self) -> tuple[ListenerAddress, ...]:
        """The listeners for clients and other brokers."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[ListenerAddress, ...]:
        """The listeners of the metadata quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)

    @property
    def advertised_endpoints(self) -> dict[str, ListenerAddress]:
        """What was advertised by name; a listener that is not in it is reached where it listens."""
        return {listener.name: listener for listener in self.advertised_listeners}


# The fields that are settings, in the order of the struct.
SETTING_FIELDS: Final = tuple(
    field
    for field in BrokerConfig.__struct_fields__
    if field not in ("topic_defaults", "properties", "unknown_keys", "idle_keys")
)
_DEFAULTS: Final = {setting.name: parse_value(setting, setting.default) for setting in BROKER_SETTINGS.values()}


def broker_values(properties: Mapping[str, str]) -> dict[str, SettingValue]:
    """Every broker setting by name: what the properties say, else the default. Unknown names are left out."""
    values = dict(_DEFAULTS)
    for name, text in properties.items():
        setting = BROKER_SETTINGS.get(name)
        if setting is not None:
            values[name] = parse_value(setting, text)
    return values


def check_dynamic_overrides(overrides: Mapping[str, str | None], *, for_all_brokers: bool) -> None:
    """Accept changes to a running broker, or raise INVALID_REQUEST as Kafka does. None takes a setting back."""
    allowed = {UpdateMode.CLUSTER_WIDE} if for_all_brokers else {UpdateMode.CLUSTER_WIDE, UpdateMode.PER_BROKER}
    known = {name: BROKER_SETTINGS[name] for name in overrides if name in BROKER_SETTINGS}
    fixed = sorted(name for name, setting in known.items() if setting.mode is UpdateMode.READ_ONLY)
    if fixed:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {', '.join(fixed)}")
    single = sorted(name for name, setting in known.items() if setting.mode not in allowed)
    if single:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level: {', '.join(single)}",
        )
    try:
        set_now = {name: text for name, text in overrides.items() if text is not None}
        _check_times(topic_defaults(broker_values(set_now)))
    except ProtocolError as problem:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, problem.message) from problem


def _derived(values: Mapping[str, Any], properties: Mapping[str, str]) -> dict[str, Any]:
    """The settings of which one stands for another, or whose text has an inner form."""
    protocols = parse_protocol_map("listener.security.protocol.map", values["listener.security.protocol.map"])
    controller_names = tuple(name.upper() for name in values["controller.listener.names"] or ())
    if "listener.security.protocol.map" not in properties:
        protocols |= {name: SecurityProtocol.PLAINTEXT for name in controller_names if name not in protocols}
    listeners = parse_listeners("listeners", values["listeners"], protocols)
    servers = "controller.quorum.bootstrap.servers"
    return {
        "node_id": _node_id(values),
        "process_roles": values["process.roles"] or DEFAULT_ROLES,
        "listener_security_protocol_map": protocols,
        "listeners": listeners,
        "advertised_listeners": parse_listeners(
            "advertised.listeners", values["advertised.listeners"] or (), protocols
        ),
        "inter_broker_listener_name": _inter_broker_listener(values, properties, listeners, controller_names),
        "controller_listener_names": controller_names,
        "controller_quorum_voters": parse_voters("controller.quorum.voters", values["controller.quorum.voters"]),
        "controller_quorum_bootstrap_servers": tuple(parse_address(servers, text) for text in values[servers]),
        "max_connections_per_ip_overrides": parse_counts(
            "max.connections.per.ip.overrides", values["max.connections.per.ip.overrides"]
        ),
        "log_dirs": values["log.dirs"] or values["log.dir"],
    }


def _node_id(values: Mapping[str, Any]) -> NodeId:
    node_id, broker_id = values["node.id"], values["broker.id"]
    if node_id is not None and broker_id >= 0 and node_id != broker_id:
        raise invalid("broker.id", broker_id, f"it must be the same as node.id, which is {node_id}")
    if node_id is not None:
        return NodeId(node_id)
    return NodeId(broker_id) if broker_id >= 0 else DEFAULT_NODE_ID


def _inter_broker_listener(
    values: Mapping[str, Any],
    properties: Mapping[str, str],
    listeners: tuple[ListenerAddress, ...],
    controller_names: tuple[str, ...],
) -> str:
    named, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    if named is not None and "security.inter.broker.protocol" in properties:
        raise invalid("inter.broker.listener.name", named, "security.inter.broker.protocol may not be set with it")
    names = [listener.name for listener in listeners if listener.name not in controller_names]
    wanted = str(named or protocol).upper()
    if wanted in names or (named is None and "security.inter.broker.protocol" not in properties):
        return wanted if wanted in names or not names else names[0]
    key = "security.inter.broker.protocol" if named is None else "inter.broker.listener.name"
    raise invalid(key, wanted, f"it must be the name of one of the listeners {', '.join(names)}")


def _check_times(config: TopicConfig) -> None:
    if config.retention_ms < 1 and config.retention_ms != UNLIMITED:
        raise invalid("log.retention.ms", config.retention_ms, "must be unlimited (-1) or greater than or equal to 1")
    if config.segment_ms < 1:
        raise invalid("log.roll.ms", config.segment_ms, "must be greater than or equal to 1")
    if config.segment_jitter_ms < 0:
        raise invalid("log.roll.jitter.ms", config.segment_jitter_ms, "must be greater than or equal to 0")


def _check(config: BrokerConfig) -> None:
    """Refuse settings that each alone are fine and together are not."""
    _check_times(config.topic_defaults)
    if not config.log_dirs:
        raise invalid("log.dirs", "", "at least one folder is needed, here or in log.dir")
    names = {listener.name for listener in config.listeners}
    for listener in config.advertised_listeners:
        if listener.name not in names:
            raise invalid("advertised.listeners", listener.name, f"it is none of the listeners {', '.join(names)}")
        if listener.host in ("0.0.0.0", "::", ""):
            raise invalid("advertised.listeners", listener.host, "clients cannot connect to it; use a routable address")
    if config.is_broker and not config.client_listeners:
        raise invalid("listeners", ",".join(names), "a broker needs a listener that is not the controller's")
    if not config.is_controller and not (config.controller_quorum_voters or config.controller_quorum_bootstrap_servers):
        raise invalid("process.roles", "broker", "a broker alone needs controller.quorum.bootstrap.servers or .voters")
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise invalid("queued.max.request.bytes", config.queued_max_request_bytes, "less than socket.request.max.bytes")
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise invalid("max.connections.per.ip", 0, "0 needs max.connections.per.ip.overrides")
    if config.replica_fetch_wait_max_ms > min(config.replica_lag_time_max_ms, config.replica_socket_timeout_ms):
        raise invalid(
            "replica.fetch.wait.max.ms",
            config.replica_fetch_wait_max_ms,
            "it must not be more than replica.lag.time.max.ms and replica.socket.timeout.ms",
        )
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise invalid(
            "group.min.session.timeout.ms",
            config.group_min_session_timeout_ms,
            "it must not be more than group.max.session.timeout.ms",
        )
