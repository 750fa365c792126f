from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.metadata.image import EMPTY, ClusterImage, ConfigResource, ResourceType
from tidelog.metadata.replay import replay
from tidelog.metadata.settings import ConfigSource, Described, Settings, describe
from tidelog.model.broker_settings import BROKER_SETTINGS
from tidelog.model.group_settings import GROUP_SETTINGS
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.topic_settings import TOPIC_SETTINGS
from tidelog.wire.messages import metadata_records as wire

ME = NodeId(1)
ORDERS = ConfigResource(ResourceType.TOPIC, "orders")
OWN, MINE, OURS, FILE, DEFAULT = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)


def image_with(*configs: tuple[ResourceType, str, str, str]) -> ClusterImage:
    records = [
        wire.TopicRecord(name="orders", topic_id=UUID(int=5)),
        *(
            wire.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
            for kind, resource, name, value in configs
        ),
    ]
    return replay(EMPTY, records, Offset(len(records) - 1), LeaderEpoch(1)).after


def one(name: str, resource: ConfigResource, image: ClusterImage, **static: str) -> Described:
    properties = {key.replace("_", "."): value for key, value in static.items()}
    (described,) = describe(image, resource, ME, properties, [name])
    return described


def test_a_topic_that_sets_nothing_has_the_defaults() -> None:
    retention = one("retention.ms", ORDERS, image_with())

    assert (retention.value, retention.source, retention.read_only) == ("604800000", DEFAULT, False)
    # Kafka names no synonym here: it shows them from the first that has the finest unit, and none has.
    assert retention.synonyms == ()
    cleanup = one("cleanup.policy", ORDERS, image_with())
    assert [synonym[:3] for synonym in cleanup.synonyms] == [("log.cleanup.policy", "delete", DEFAULT)]


def test_every_source_of_a_value_is_told_and_the_nearest_counts() -> None:
    image = image_with(
        (ResourceType.TOPIC, "orders", "retention.ms", "1"),
        (ResourceType.BROKER, "1", "log.retention.ms", "2"),
        (ResourceType.BROKER, "", "log.retention.ms", "3"),
        (ResourceType.BROKER, "2", "log.retention.ms", "9"),
    )

    retention = one("retention.ms", ORDERS, image, log_retention_ms="4", log_retention_minutes="5")

    assert (retention.value, retention.source) == ("1", OWN)
    assert [synonym[:3] for synonym in retention.synonyms] == [
        ("retention.ms", "1", OWN),
        ("log.retention.ms", "2", MINE),
        ("log.retention.ms", "3", OURS),
        ("log.retention.ms", "4", FILE),
        ("log.retention.minutes", "5", FILE),
        ("log.retention.hours", "168", DEFAULT),
    ]


@pytest.mark.parametrize(
    ("static", "value"),
    [
        pytest.param({"log_retention_hours": "2"}, "7200000", id="hours"),
        pytest.param({"log_retention_minutes": "2", "log_retention_hours": "9"}, "120000", id="minutes before hours"),
        pytest.param({"log_retention_hours": "-1"}, "-1", id="no limit"),
    ],
)
def test_a_value_in_another_unit_is_converted(static: dict[str, str], value: str) -> None:
    retention = one("retention.ms", ORDERS, image_with(), **static)

    # Kafka calls this a default, too: see above.
    assert (retention.value, retention.source, retention.synonyms) == (value, DEFAULT, ())


def test_a_broker_s_setting_in_several_units_is_shown_from_its_own_unit_on() -> None:
    image = image_with((ResourceType.BROKER, "1", "log.retention.ms", "5"))
    me = ConfigResource(ResourceType.BROKER, "1")

    finest = one("log.retention.ms", me, image)
    hours = one("log.retention.hours", me, image)

    assert (finest.value, finest.source) == ("5", MINE)
    assert [synonym[:3] for synonym in finest.synonyms] == [
        ("log.retention.ms", "5", MINE),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert (hours.value, hours.source) == ("168", DEFAULT)
    assert [synonym[:3] for synonym in hours.synonyms] == [("log.retention.hours", "168", DEFAULT)]


def test_a_group_has_the_broker_s_defaults_until_it_has_settings_of_its_own() -> None:
    image = image_with((ResourceType.GROUP, "readers", "consumer.session.timeout.ms", "50000"))
    readers = ConfigResource(ResourceType.GROUP, "readers")

    session = one("consumer.session.timeout.ms", readers, image)
    heartbeat = one("consumer.heartbeat.interval.ms", readers, image, group_consumer_heartbeat_interval_ms="7000")

    assert (session.value, session.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert [synonym[:2] for synonym in session.synonyms] == [("consumer.session.timeout.ms", "50000")]
    assert (heartbeat.value, heartbeat.source) == ("7000", DEFAULT)
    assert {entry.name for entry in describe(image, readers, ME, {})} == set(GROUP_SETTINGS)


def test_a_brokers_setting_tells_its_sources_and_whether_it_can_change() -> None:
    image = image_with((ResourceType.BROKER, "", "log.cleaner.threads", "3"))
    me = ConfigResource(ResourceType.BROKER, "1")

    threads = one("log.cleaner.threads", me, image, log_cleaner_threads="2")
    node_id = one("node.id", me, image, node_id="1")

    assert (threads.value, threads.source, threads.read_only) == ("3", OURS, False)
    assert [synonym[:3] for synonym in threads.synonyms] == [
        ("log.cleaner.threads", "3", OURS),
        ("log.cleaner.threads", "2", FILE),
        ("log.cleaner.threads", "1", DEFAULT),
    ]
    assert (node_id.value, node_id.source, node_id.read_only) == ("1", FILE, True)


def test_the_default_of_all_brokers_shows_only_what_was_set_for_all() -> None:
    image = image_with(
        (ResourceType.BROKER, "", "log.retention.ms", "5555"),
        (ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
    )

    (described,) = describe(image, ConfigResource(ResourceType.BROKER, ""), ME, {"log.cleaner.threads": "4"})

    assert (described.name, described.value, described.source) == ("log.retention.ms", "5555", OURS)


def test_a_secret_is_never_shown() -> None:
    image = image_with((ResourceType.BROKER, "1", "ssl.key.password", "secret"))
    me = ConfigResource(ResourceType.BROKER, "1")

    password = one("ssl.key.password", me, image, ssl_key_password="hidden")

    assert password.sensitive
    assert password.value is None
    assert [synonym.value for synonym in password.synonyms] == [None, None]


def test_a_setting_that_nobody_knows_might_be_a_secret() -> None:
    image = image_with((ResourceType.BROKER, "", "plug.in.key", "secret"))

    for name in ("", "1"):
        unknown = one("plug.in.key", ConfigResource(ResourceType.BROKER, name), image)
        assert (unknown.value, unknown.sensitive, unknown.read_only, unknown.type) == (None, True, True, 0)


def test_everything_public_is_described_when_nothing_is_named() -> None:
    topic = describe(image_with(), ORDERS, ME, {})
    broker = describe(image_with(), ConfigResource(ResourceType.BROKER, "1"), ME, {})

    assert {entry.name for entry in topic} == {
        name for name, setting in TOPIC_SETTINGS.items() if not setting.is_internal
    }
    assert {entry.name for entry in broker} == {
        name for name, setting in BROKER_SETTINGS.items() if not setting.is_internal
    }
    assert all(entry.help and entry.type for entry in topic)


def test_a_topic_not_yet_created_is_described_by_the_settings_it_will_have() -> None:
    described = Settings(EMPTY, ME, {}).describe_topic("new", ["flush.ms"], own={"flush.ms": "7"})

    assert [(entry.value, entry.source) for entry in described] == [("7", OWN)]


def test_values_are_shown_in_their_plain_form() -> None:
    image = image_with((ResourceType.TOPIC, "orders", "preallocate", " TRUE "))

    assert one("preallocate", ORDERS, image).value == "true"


def test_what_is_set_for_a_broker_is_merged_with_the_nearest_first() -> None:
    image = image_with(
        (ResourceType.BROKER, "", "log.cleaner.threads", "3"),
        (ResourceType.BROKER, "", "log.retention.ms", "5"),
        (ResourceType.BROKER, "1", "log.cleaner.threads", "4"),
    )

    merged = Settings(image, ME, {"log.retention.ms": "1", "log.dirs": "data"}).broker_values()

    assert merged == {"log.cleaner.threads": "4", "log.retention.ms": "5", "log.dirs": "data"}
