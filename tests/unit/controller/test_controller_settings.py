from __future__ import annotations

import pytest

from harness.controller_desk import Desk
from tidelog.controller.settings import Alteration, Operation, alter, replace
from tidelog.controller.state import Policy
from tidelog.controller.topics import NewTopic, create
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.model.errors import ErrorCode

ORDERS = ConfigResource(ResourceType.TOPIC, "orders")
BROKER = ConfigResource(ResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
READERS = ConfigResource(ResourceType.GROUP, "readers")
SESSION = "consumer.session.timeout.ms"
SET, DELETE, APPEND, SUBTRACT = Operation


def desk_with_orders(**settings: str) -> Desk:
    desk = Desk()
    given = [(name.replace("_", "."), value) for name, value in settings.items()]
    desk.run(create, [NewTopic("orders", 1, 1, settings=given)])
    return desk


def altered(desk: Desk, resource: ConfigResource, *alterations: tuple[str, int, str | None]) -> ErrorCode:
    (outcome,) = desk.run(alter, [(resource, [Alteration(*alteration) for alteration in alterations])])
    return ErrorCode.NONE if outcome.error is None else outcome.error.code


def test_a_setting_is_set_and_deleted_and_the_others_stay() -> None:
    desk = desk_with_orders(retention_ms="1", segment_bytes="2000000")

    assert altered(desk, ORDERS, ("retention.ms", SET, "5"), ("segment.bytes", DELETE, None)) is ErrorCode.NONE

    assert desk.image.config(ORDERS) == {"retention.ms": "5"}


def test_words_are_added_to_a_list_and_taken_from_it() -> None:
    desk = desk_with_orders()

    altered(desk, ORDERS, ("cleanup.policy", APPEND, "compact"))
    assert desk.image.config(ORDERS) == {"cleanup.policy": "delete,compact"}
    altered(desk, ORDERS, ("cleanup.policy", APPEND, "compact"))
    assert desk.image.config(ORDERS) == {"cleanup.policy": "delete,compact"}
    altered(desk, ORDERS, ("cleanup.policy", SUBTRACT, "delete"))

    assert desk.image.config(ORDERS) == {"cleanup.policy": "compact"}


def test_a_value_that_is_the_same_as_before_writes_no_record() -> None:
    desk = desk_with_orders(retention_ms="1")
    written = len(desk.log)

    altered(desk, ORDERS, ("retention.ms", SET, "1"), ("segment.bytes", DELETE, None), ("unknown", DELETE, None))

    assert len(desk.log) == written


@pytest.mark.parametrize(
    ("resource", "alteration", "code"),
    [
        pytest.param(ORDERS, ("foo", SET, "1"), ErrorCode.INVALID_CONFIG, id="unknown key of a topic"),
        pytest.param(ORDERS, ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG, id="not a number"),
        pytest.param(ORDERS, ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, id="append to a number"),
        pytest.param(ORDERS, ("foo", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG, id="subtract from an unknown key"),
        pytest.param(ORDERS, ("cleanup.policy", APPEND, "burn"), ErrorCode.INVALID_CONFIG, id="append a wrong word"),
        pytest.param(ORDERS, ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, id="null"),
        pytest.param(ORDERS, ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, id="unknown operation"),
        pytest.param(ORDERS, ("", SET, "1"), ErrorCode.INVALID_REQUEST, id="no name"),
        pytest.param(
            ConfigResource(ResourceType.TOPIC, "nothing"),
            ("retention.ms", SET, "1"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            id="unknown topic",
        ),
        pytest.param(
            ConfigResource(ResourceType.TOPIC, ""),
            ("retention.ms", SET, "1"),
            ErrorCode.INVALID_REQUEST,
            id="topic without a name",
        ),
        pytest.param(BROKER, ("log.cleaner.threads", SET, "x"), ErrorCode.INVALID_REQUEST, id="broker: not a number"),
        pytest.param(BROKER, ("log.dirs", SET, "x"), ErrorCode.INVALID_REQUEST, id="broker: read only"),
        pytest.param(ALL_BROKERS, ("listeners", SET, "x"), ErrorCode.INVALID_REQUEST, id="all brokers: only for one"),
        pytest.param(
            ConfigResource(ResourceType.BROKER, "9"),
            ("log.cleaner.threads", SET, "2"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            id="unknown broker",
        ),
        pytest.param(
            ConfigResource(ResourceType.BROKER, "one"),
            ("log.cleaner.threads", SET, "2"),
            ErrorCode.INVALID_REQUEST,
            id="broker without a number",
        ),
        pytest.param(READERS, ("foo", SET, "1"), ErrorCode.INVALID_CONFIG, id="unknown key of a group"),
        pytest.param(READERS, (SESSION, SET, "x"), ErrorCode.INVALID_CONFIG, id="group: not a number"),
        pytest.param(READERS, (SESSION, SET, "44999"), ErrorCode.INVALID_CONFIG, id="group: below the broker's limit"),
        pytest.param(READERS, (SESSION, SET, "60001"), ErrorCode.INVALID_CONFIG, id="group: above the broker's limit"),
        pytest.param(
            ConfigResource(ResourceType.GROUP, ""),
            (SESSION, SET, "50000"),
            ErrorCode.INVALID_REQUEST,
            id="group without a name",
        ),
        pytest.param(
            ConfigResource(ResourceType.BROKER_LOGGER, "1"),
            ("root", SET, "INFO"),
            ErrorCode.INVALID_REQUEST,
            id="not a resource of the controller",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_nothing_is_written(
    resource: ConfigResource, alteration: tuple[str, int, str | None], code: ErrorCode
) -> None:
    desk = desk_with_orders(retention_ms="1")
    before = desk.image.configs

    assert altered(desk, resource, alteration) is code
    assert desk.image.configs == before


def test_one_bad_change_spoils_its_resource_but_no_other() -> None:
    desk = desk_with_orders()
    desk.run(create, [NewTopic("payments", 1, 1)])
    payments = ConfigResource(ResourceType.TOPIC, "payments")

    bad, good = desk.run(
        alter,
        [
            (ORDERS, [Alteration("retention.ms", SET, "1"), Alteration("foo", SET, "1")]),
            (payments, [Alteration("retention.ms", SET, "2")]),
        ],
    )

    assert bad.error is not None
    assert good.error is None
    assert desk.image.configs == {payments: {"retention.ms": "2"}}


def test_a_key_or_a_resource_named_twice_is_refused() -> None:
    desk = desk_with_orders()

    assert altered(desk, ORDERS, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")) is ErrorCode.INVALID_REQUEST
    one = [Alteration("retention.ms", SET, "1")]
    outcomes = desk.run(alter, [(ORDERS, one), (ORDERS, one)])

    assert [outcome.error and outcome.error.code for outcome in outcomes] == [ErrorCode.INVALID_REQUEST] * 2


def test_changes_can_be_validated_only() -> None:
    desk = desk_with_orders()

    (outcome,) = desk.run(alter, [(ORDERS, [Alteration("retention.ms", SET, "1")])], validate_only=True)

    assert outcome.error is None
    assert desk.image.configs == {}


def test_brokers_have_settings_of_their_own_and_together() -> None:
    desk = desk_with_orders()

    assert altered(desk, BROKER, ("log.cleaner.threads", SET, "2")) is ErrorCode.NONE
    assert altered(desk, ALL_BROKERS, ("log.retention.ms", SET, "5555")) is ErrorCode.NONE

    assert desk.image.config(BROKER) == {"log.cleaner.threads": "2"}
    assert desk.image.config(ALL_BROKERS) == {"log.retention.ms": "5555"}


def test_groups_have_settings_within_the_limits_of_the_broker() -> None:
    desk = Desk(policy=Policy(static_settings={"group.consumer.min.session.timeout.ms": "6000"}))

    assert altered(desk, READERS, (SESSION, SET, "6000")) is ErrorCode.NONE
    assert desk.image.config(READERS) == {SESSION: "6000"}
    # A session that ends before the next heartbeat could come is none.
    assert altered(desk, READERS, ("consumer.heartbeat.interval.ms", SET, "6000")) is ErrorCode.INVALID_CONFIG
    assert altered(desk, READERS, (SESSION, DELETE, None)) is ErrorCode.NONE
    assert desk.image.config(READERS) == {}


def test_settings_that_contradict_what_is_already_set_are_refused() -> None:
    desk = desk_with_orders(max_compaction_lag_ms="10")

    assert altered(desk, ORDERS, ("min.compaction.lag.ms", SET, "11")) is ErrorCode.INVALID_CONFIG


def test_replacing_deletes_what_is_not_named() -> None:
    desk = desk_with_orders(retention_ms="1", segment_bytes="2000000")

    (outcome,) = desk.run(replace, [(ORDERS, [("retention.ms", "7"), ("flush.ms", "9")])])

    assert outcome.error is None
    assert desk.image.config(ORDERS) == {"retention.ms": "7", "flush.ms": "9"}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        pytest.param([("foo", "1")], ErrorCode.INVALID_CONFIG, id="unknown key"),
        pytest.param([("retention.ms", None)], ErrorCode.INVALID_REQUEST, id="null"),
        pytest.param([("flush.ms", "1"), ("flush.ms", "2")], ErrorCode.INVALID_REQUEST, id="key twice"),
    ],
)
def test_a_replacement_that_cannot_be_is_refused(wanted: list[tuple[str, str | None]], code: ErrorCode) -> None:
    desk = desk_with_orders(retention_ms="1")

    (outcome,) = desk.run(replace, [(ORDERS, wanted)])

    assert outcome.error is not None
    assert outcome.error.code is code
    assert desk.image.config(ORDERS) == {"retention.ms": "1"}
