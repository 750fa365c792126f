"""TopicConfig and BrokerConfig: how values are found, and which combinations are refused."""

from __future__ import annotations

import pytest

from tidelog.model.broker_settings import BrokerConfig, broker_values, check_dynamic_overrides
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.listeners import Address, ListenerAddress, SecurityProtocol, Voter
from tidelog.model.properties import read_properties
from tidelog.model.topic_settings import check_topic_config, parse_topic_overrides, topic_config, topic_defaults

HOUR_MS = 3_600_000
FOREVER = 2**63 - 1


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): value for name, value in properties.items()})


def test_a_broker_without_settings_is_the_one_node_of_its_cluster() -> None:
    made = config()
    assert (made.node_id, made.is_broker, made.is_controller) == (1, True, True)
    assert made.client_listeners == (ListenerAddress("PLAINTEXT", "", 9092),)
    assert (made.unknown_keys, made.idle_keys, made.advertised_endpoints) == ((), (), {})


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-7"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_milliseconds_come_before_minutes_and_minutes_before_hours(
    properties: dict[str, str], retention_ms: int
) -> None:
    assert BrokerConfig.from_properties(properties).topic_defaults.retention_ms == retention_ms


def test_rolling_and_flushing_have_the_same_precedence() -> None:
    defaults = config(log_roll_hours="2", log_roll_jitter_hours="1").topic_defaults
    assert (defaults.segment_ms, defaults.segment_jitter_ms) == (2 * HOUR_MS, HOUR_MS)
    assert config(log_roll_hours="2", log_roll_ms="5").topic_defaults.segment_ms == 5
    assert config(log_flush_scheduler_interval_ms="7").topic_defaults.flush_ms == 7
    assert config(log_flush_scheduler_interval_ms="7", log_flush_interval_ms="5").topic_defaults.flush_ms == 5
    assert config().topic_defaults.flush_ms == config().topic_defaults.flush_messages == FOREVER


def test_negative_values_that_are_no_times_stay_what_they_are() -> None:
    defaults = config(compression_zstd_level="-7").topic_defaults
    assert (defaults.compression_zstd_level, defaults.local_retention_ms) == (-7, -2)


def test_a_topics_own_settings_lie_over_the_brokers() -> None:
    defaults = config(log_segment_bytes="2097152", log_cleanup_policy="compact,delete").topic_defaults
    made = topic_config(defaults, {"segment.bytes": "1048576", "retention.ms": "5", "from.the.future": "1"})
    assert (made.segment_bytes, made.roll_bytes, made.retention_ms) == (1048576, 1048576, 5)
    assert (made.is_compacted, made.is_deleted, made.is_log_append_time) == (True, True, False)
    assert topic_config(defaults, {}) is defaults
    assert topic_config(defaults, {"internal.segment.bytes": "100"}).roll_bytes == 100


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"foo.bar": "1"}, "Unknown topic config name: foo.bar"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"segment.bytes": "10"}, "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
    ],
)
def test_overrides_that_cannot_be_are_refused(overrides: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        parse_topic_overrides(overrides)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_CONFIG, sentence)


@pytest.mark.parametrize(
    "overrides",
    [{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, {"remote.storage.enable": "true"}],
)
def test_topic_settings_that_contradict_each_other_are_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_topic_config(topic_config(topic_defaults({}), overrides))
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_the_node_has_one_number_under_two_names() -> None:
    assert (
        config(broker_id="7").node_id == config(node_id="7").node_id == config(node_id="7", broker_id="7").node_id == 7
    )
    with pytest.raises(ProtocolError, match=r"broker\.id: it must be the same as node\.id, which is 7"):
        config(node_id="7", broker_id="8")


def test_several_data_folders_come_before_one() -> None:
    assert config(log_dir="/data").log_dirs == ("/data",)
    assert config(log_dir="/data", log_dirs="/a, /b").log_dirs == ("/a", "/b")


def test_a_server_properties_of_a_combined_node_is_read() -> None:
    text = """
    process.roles=broker,controller
    node.id=3
    controller.quorum.voters=3@localhost:9093,4@[::1]:9094
    listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093
    advertised.listeners=PLAINTEXT://broker.example:19092
    controller.listener.names=CONTROLLER
    max.connections.per.ip.overrides=127.0.0.1:200,host:5
    num.network.threads=3
    zookeeper.connect=localhost:2181
    listener.name.plaintext.ssl.client.auth=none
    tidelog.metrics.port=9404
    """
    made = BrokerConfig.from_properties(read_properties(text))
    assert made.client_listeners == (ListenerAddress("PLAINTEXT", "", 9092),)
    assert made.controller_listeners == (ListenerAddress("CONTROLLER", "127.0.0.1", 9093),)
    assert made.advertised_endpoints == {"PLAINTEXT": ListenerAddress("PLAINTEXT", "broker.example", 19092)}
    assert made.controller_quorum_voters == (Voter(3, "localhost", 9093), Voter(4, "::1", 9094))
    assert made.max_connections_per_ip_overrides == {"127.0.0.1": 200, "host": 5}
    assert made.inter_broker_listener_name == "PLAINTEXT"
    assert made.unknown_keys == ("zookeeper.connect",)
    assert made.idle_keys == ("num.network.threads",)


def test_listeners_have_the_protocol_of_the_map() -> None:
    made = config(
        listeners="inside://10.0.0.1:1,outside://[::]:2",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
        inter_broker_listener_name="inside",
        controller_quorum_bootstrap_servers="a:1,b:2",
    )
    assert made.listeners == (
        ListenerAddress("INSIDE", "10.0.0.1", 1, SecurityProtocol.PLAINTEXT),
        ListenerAddress("OUTSIDE", "::", 2, SecurityProtocol.SASL_SSL),
    )
    assert made.inter_broker_listener_name == "INSIDE"
    assert made.controller_quorum_bootstrap_servers == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"num.partitions": "many"}, ["many", "num.partitions", "INT"]),
        ({"num.partitions": "0"}, ["0", "num.partitions", "at least 1"]),
        ({"listeners": "localhost:9092"}, ["localhost:9092", "listeners", "NAME://host:port"]),
        ({"listeners": "PLAINTEXT://localhost"}, ["localhost", "listeners", "host:port"]),
        ({"listeners": "PLAINTEXT://h:99999"}, ["h:99999", "65535"]),
        ({"listeners": "FOO://h:1"}, ["FOO://h:1", "listener.security.protocol.map"]),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, ["different name"]),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, ["different port"]),
        ({"listener.security.protocol.map": "A:B"}, ["A:B", "PLAINTEXT, SSL"]),
        ({"advertised.listeners": "SSL://h:1"}, ["advertised.listeners", "PLAINTEXT"]),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, ["0.0.0.0", "routable"]),
        ({"controller.listener.names": "PLAINTEXT"}, ["listeners", "controller"]),
        ({"process.roles": "broker"}, ["process.roles", "controller.quorum.bootstrap.servers"]),
        ({"process.roles": "king"}, ["king", "broker, controller"]),
        ({"controller.quorum.voters": "localhost:1"}, ["localhost:1", "id@host:port"]),
        ({"log.retention.ms": "0"}, ["log.retention.ms", "-1"]),
        ({"log.roll.ms": "0"}, ["log.roll.ms", "1"]),
        ({"log.roll.jitter.ms": "-1"}, ["log.roll.jitter.ms", "0"]),
        ({"log.dir": ""}, ["log.dirs"]),
        ({"queued.max.request.bytes": "5"}, ["queued.max.request.bytes", "5", "socket.request.max.bytes"]),
        ({"max.connections.per.ip": "0"}, ["max.connections.per.ip.overrides"]),
        ({"max.connections.per.ip.overrides": "x"}, ["x", "host:count"]),
        ({"replica.fetch.wait.max.ms": "40000"}, ["replica.fetch.wait.max.ms", "40000"]),
        ({"group.min.session.timeout.ms": "99999999"}, ["group.min.session.timeout.ms"]),
        ({"inter.broker.listener.name": "FOO"}, ["FOO", "PLAINTEXT"]),
        ({"security.inter.broker.protocol": "SSL"}, ["SSL", "PLAINTEXT"]),
        ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "SSL"}, ["with it"]),
    ],
)
def test_a_bad_setting_is_refused_by_name(properties: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ProtocolError) as refused:
        BrokerConfig.from_properties(properties)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert all(word in str(refused.value) for word in words), refused.value


def test_the_keys_of_the_course_are_accepted() -> None:
    made = config(
        log_flush_interval_messages="10000",
        log_flush_interval_ms="5000",
        log_retention_hours="168",
        log_retention_bytes="1073741824",
        min_insync_replicas="2",
        log_dir="/data",
        broker_id="0",
        log_segment_bytes="1073741824",
    )
    assert made.unknown_keys == made.idle_keys == ()
    assert (made.topic_defaults.flush_messages, made.topic_defaults.flush_ms) == (10000, 5000)
    assert (made.node_id, made.min_insync_replicas, made.topic_defaults.min_insync_replicas) == (0, 2, 2)
    assert parse_topic_overrides({"cleanup.policy": "compact"}) == {"cleanup.policy": ("compact",)}


def test_values_by_name_have_defaults_and_no_unknown_names() -> None:
    values = broker_values({"num.partitions": "3", "foo": "bar"})
    assert (values["num.partitions"], values["log.retention.hours"], values["log.retention.ms"]) == (3, 168, None)
    assert "foo" not in values


@pytest.mark.parametrize(
    ("overrides", "for_all_brokers"),
    [
        ({"num.partitions": "5"}, False),
        ({"log.retention.minutes": "10"}, True),
        ({"listeners": "PLAINTEXT://:1"}, True),
        ({"log.retention.ms": "0"}, False),
        ({"log.retention.ms": "abc"}, False),
        ({"message.max.bytes": "-1"}, True),
    ],
)
def test_a_running_broker_refuses_what_kafka_refuses(overrides: dict[str, str | None], for_all_brokers: bool) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_dynamic_overrides(overrides, for_all_brokers=for_all_brokers)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_running_broker_accepts_what_kafka_accepts() -> None:
    check_dynamic_overrides({"log.retention.ms": "-5", "foo": "1"}, for_all_brokers=False)
    check_dynamic_overrides({"log.retention.ms": "1000000", "num.io.threads": None}, for_all_brokers=True)
