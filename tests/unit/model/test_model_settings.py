"""One setting: text to value, and the sentence for a value that is not allowed (Apache Kafka 4.2's)."""

from __future__ import annotations

import pytest

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.settings import Setting, SettingType, SettingValue, parse_value, show_value
from tidelog.model.topic_settings import TOPIC_SETTINGS


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 7 ", 7),
        ("retention.ms", "-1", -1),
        ("retention.ms", "+5", 5),
        ("retention.ms", "9223372036854775807", 2**63 - 1),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("preallocate", "TRUE", True),
        ("preallocate", " false", False),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("min.cleanable.dirty.ratio", "1e-3", 0.001),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: SettingValue) -> None:
    assert parse_value(TOPIC_SETTINGS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1.5", "Invalid value 1.5 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "٣", "Invalid value ٣ for configuration retention.ms: Not a number of type LONG"),
        (
            "retention.ms",
            "9223372036854775808",
            "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "segment.bytes",
            "99999999999",
            "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
        ),
        ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "delete, compact,", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "preallocate",
            "maybe",
            "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "x",
            "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.type",
            "brotli",
            "Invalid value brotli for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "message.timestamp.type",
            "foo",
            "Invalid value foo for configuration message.timestamp.type: "
            "String must be one of: CreateTime, LogAppendTime",
        ),
    ],
)
def test_a_value_that_is_not_allowed_gets_kafkas_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        parse_value(TOPIC_SETTINGS[name], text)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message == sentence


def test_throttled_replicas_have_a_form() -> None:
    with pytest.raises(ProtocolError, match=r"\[partitionId\]:\[brokerId\]"):
        parse_value(TOPIC_SETTINGS["leader.replication.throttled.replicas"], "x")


def test_what_is_not_set_has_no_value() -> None:
    assert parse_value(TOPIC_SETTINGS["retention.ms"], None) is None


def test_a_password_is_sensitive() -> None:
    assert Setting("ssl.key.password", SettingType.PASSWORD, None).is_sensitive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (("a", "b"), "a,b"),
        ((), ""),
        ("text", "text"),
    ],
)
def test_a_value_is_shown_as_kafka_shows_it(value: SettingValue, text: str | None) -> None:
    assert show_value(value) == text
