"""The tables of settings against what a real Apache Kafka 4.2 says about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tidelog.model.accepted_settings import ACCEPTED_SETTINGS
from tidelog.model.broker_settings import BROKER_SETTINGS, HONOURED_SETTINGS, SETTING_FIELDS
from tidelog.model.group_settings import GROUP_SETTINGS
from tidelog.model.settings import Setting, SettingType, parse_value, show_value
from tidelog.model.topic_settings import TOPIC_SETTINGS, TopicConfig, topic_defaults

RECORDED = Path(__file__).parents[2] / "data" / "apache-kafka-4.2-configs.json"
APACHE_KAFKA: dict[str, list[dict[str, Any]]] = json.loads(RECORDED.read_text("utf-8"))
TOPIC = {row["name"]: row for row in APACHE_KAFKA["topic"]}
BROKER = {row["name"]: row for row in APACHE_KAFKA["broker"]}
GROUP = {row["name"]: row for row in APACHE_KAFKA["group"]}
# Kafka's rules that say no more than that there is a value.
NO_REAL_RULE = {None, "non-null string", "non-empty string", "non-empty list"}


def described(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "type": setting.type.name,
        "default": setting.default,
        "validator": None if setting.rule is None else str(setting.rule),
        "sensitive": setting.is_sensitive,
    }


def expected(row: dict[str, Any]) -> dict[str, Any]:
    wanted = {key: row[key] for key in ("name", "type", "default", "sensitive")}
    return wanted | {"validator": None if row["validator"] in NO_REAL_RULE else row["validator"]}


def test_topics_have_exactly_kafkas_settings() -> None:
    assert {name for name, setting in TOPIC_SETTINGS.items() if not setting.is_internal} == set(TOPIC)


def test_brokers_have_exactly_kafkas_settings() -> None:
    assert set(BROKER_SETTINGS) == set(BROKER)
    assert not set(HONOURED_SETTINGS) & set(ACCEPTED_SETTINGS)


@pytest.mark.parametrize("name", TOPIC)
def test_a_topics_setting_is_as_kafka_describes_it(name: str) -> None:
    assert described(TOPIC_SETTINGS[name]) == expected(TOPIC[name])


@pytest.mark.parametrize("name", BROKER)
def test_a_brokers_setting_is_as_kafka_describes_it(name: str) -> None:
    setting = BROKER_SETTINGS[name]
    assert described(setting) == expected(BROKER[name])
    assert setting.mode.value == BROKER[name]["mode"]


@pytest.mark.parametrize("name", GROUP)
def test_a_groups_setting_is_as_kafka_describes_it(name: str) -> None:
    assert described(GROUP_SETTINGS[name]) == expected(GROUP[name])
    assert GROUP_SETTINGS[name].help.endswith(".")


def test_groups_have_exactly_kafkas_settings() -> None:
    assert set(GROUP_SETTINGS) == set(GROUP)


@pytest.mark.parametrize("name", [name for name, row in TOPIC.items() if row["synonyms"]])
def test_a_topics_setting_falls_back_to_the_same_broker_setting(name: str) -> None:
    assert [synonym for synonym, _ in TOPIC_SETTINGS[name].synonyms][:1] == TOPIC[name]["synonyms"]


@pytest.mark.parametrize("setting", [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()], ids=lambda s: s.name)
def test_every_default_is_allowed_and_comes_back_as_it_is_written(setting: Setting) -> None:
    assert show_value(parse_value(setting, setting.default)) == setting.default


@pytest.mark.parametrize("setting", [*TOPIC_SETTINGS.values(), *HONOURED_SETTINGS.values()], ids=lambda s: s.name)
def test_what_is_honoured_is_explained_in_a_sentence(setting: Setting) -> None:
    assert setting.help.endswith(".")


def test_synonyms_are_broker_settings() -> None:
    for setting in TOPIC_SETTINGS.values():
        assert {name for name, _ in setting.synonyms} <= set(BROKER_SETTINGS)


PYTHON_TYPES: dict[SettingType, object] = {
    SettingType.BOOLEAN: bool,
    SettingType.STRING: str,
    SettingType.INT: int,
    SettingType.LONG: int,
    SettingType.DOUBLE: float,
    SettingType.LIST: tuple[str, ...],
}


def test_a_topics_config_has_a_field_of_the_right_type_for_every_setting() -> None:
    wanted = {setting.field: PYTHON_TYPES[setting.type] for setting in TOPIC_SETTINGS.values()}
    wanted["internal_segment_bytes"] = int | None
    assert get_type_hints(TopicConfig) == wanted


def test_the_topic_defaults_of_an_unconfigured_broker_are_kafkas() -> None:
    defaults = topic_defaults({})
    assert {name: show_value(getattr(defaults, TOPIC_SETTINGS[name].field)) for name in TOPIC} == {
        name: row["default"] for name, row in TOPIC.items()
    }


def test_a_brokers_config_has_a_field_for_everything_honoured_that_is_no_topic_default() -> None:
    inherited = {name for setting in TOPIC_SETTINGS.values() for name, _ in setting.synonyms}
    wanted = {setting.field for name, setting in HONOURED_SETTINGS.items() if name not in inherited}
    also = {"message_max_bytes", "min_insync_replicas", "unclean_leader_election_enable"}
    flush = {"log_flush_scheduler_interval_ms"}
    one_of_two = {"broker_id", "log_dir"}
    assert set(SETTING_FIELDS) == (wanted - one_of_two) | also | flush
