"""Settings of clients: names, conversions, refusals."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from tidelog.client.core.buffer_policy import BufferFullPolicy
from tidelog.client.core.options import (
    ACKS_ALL,
    AdminOptions,
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    read_options,
)
from tidelog.client.core.settings_types import AdminSettings, ConsumerSettings, ProducerSettings
from tidelog.client.errors import InvalidOption
from tidelog.wire.compression import Compression


def producer(**named: Any) -> ProducerOptions:
    return read_options(ProducerOptions, None, {"bootstrap_servers": "a:1", **named})


def test_dotted_names_mean_the_same_as_names_with_underscores() -> None:
    dotted = read_options(
        ProducerOptions, {"bootstrap.servers": "a:1", "linger.ms": "20", "acks": "all", "compression.type": "lz4"}, {}
    )
    assert dotted == producer(linger_ms=20, acks=-1, compression_type=Compression.LZ4)


def test_a_text_alone_is_the_bootstrap_servers_and_a_list_is_joined() -> None:
    assert read_options(ProducerOptions, "a:1,b:2", {}) == read_options(
        ProducerOptions, None, {"bootstrap_servers": ["a:1", "b:2"]}
    )


def test_an_unknown_name_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidOption, match=r"no setting 'liger_ms'. Did you mean 'linger_ms'"):
        producer(liger_ms=5)
    with pytest.raises(InvalidOption, match=r"Did you mean 'group.id'"):
        read_options(ConsumerOptions, {"bootstrap.servers": "a:1", "groop.id": "g"}, {})


def test_a_name_given_in_both_spellings_is_refused() -> None:
    with pytest.raises(InvalidOption, match="twice"):
        read_options(ProducerOptions, {"bootstrap.servers": "a:1", "linger.ms": 1}, {"linger_ms": 2})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("acks", "most", "0, 1 or all"),
        ("compression_type", "brotli", "one of none, gzip"),
        ("buffer_full", "explode", "explode"),
        ("linger_ms", "soon", "linger_ms"),
        ("linger_ms", -1, "below 0"),
        ("allow_auto_create_topics", "maybe", "true or false"),
        ("transactional_id", "", "empty"),
        ("security_protocol", "TLS", "is not one of"),
        ("security_protocol", "SASL_SSL", "sasl_mechanism=None is not one of PLAIN"),
        ("sasl_mechanism", "plain", "needs security_protocol"),
        ("ssl_cafile", "ca.pem", "need security_protocol"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_words(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        producer(**{name: value})


def test_idempotence_is_on_unless_acks_or_the_caller_say_otherwise() -> None:
    assert producer().idempotent
    assert not producer(acks=1).idempotent
    assert not producer(enable_idempotence="false").idempotent
    with pytest.raises(InvalidOption, match="acks=all"):
        producer(acks=1, enable_idempotence=True)
    with pytest.raises(InvalidOption, match="at most 5"):
        producer(max_in_flight=6, enable_idempotence=True)
    with pytest.raises(InvalidOption, match="transactional_id needs"):
        producer(transactional_id="t", acks=1)


def test_the_policies_of_a_full_buffer_have_names() -> None:
    assert producer(buffer_full="drop_oldest").buffer_full is BufferFullPolicy.DROP_OLDEST
    assert producer().buffer_full is BufferFullPolicy.BLOCK
    assert producer().acks == ACKS_ALL


def test_bootstrap_servers_have_to_be_given() -> None:
    with pytest.raises(InvalidOption, match="bootstrap_servers is missing"):
        read_options(ProducerOptions, None, {})


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (ProducerOptions, ProducerSettings),
        (ConsumerOptions, ConsumerSettings),
        (AdminOptions, AdminSettings),
    ],
)
def test_editors_know_exactly_the_settings_that_there_are(options: type[ClientOptions], settings: type) -> None:
    assert {field.name for field in fields(options)} == set(get_type_hints(settings))
