"""The options of the source: the names and meanings of Spark's Kafka connector, and sentences for what is wrong."""

from __future__ import annotations

import pytest

from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.spark.errors import InvalidOption
from tidelog.spark.options import Assigned, Ends, Named, Pattern, Times, Topics, parse_read_options
from tidelog.spark.write_options import parse_write_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def _at(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(partition))


def test_names_of_options_count_in_any_case() -> None:
    options = parse_read_options(
        {"KAFKA.bootstrap.SERVERS": "a:1", "SUBSCRIBE": "t", "minpartitions": "4"}, streaming=False
    )

    assert options.bootstrap_servers == "a:1"
    assert options.selection == Topics((TopicName("t"),))
    assert options.partitions_min == 4


def test_a_batch_reads_from_the_earliest_to_the_latest_and_a_stream_from_the_latest_unless_told() -> None:
    batch = parse_read_options(SERVERS | {"subscribe": "a, b"}, streaming=False)
    stream = parse_read_options(SERVERS | {"subscribe": "a, b"}, streaming=True)

    assert batch.selection == Topics((TopicName("a"), TopicName("b")))
    assert (batch.starting, batch.ending) == (Ends(EARLIEST), Ends(LATEST))
    assert stream.starting == Ends(LATEST)


def test_partitions_patterns_and_offsets_are_read_from_their_json() -> None:
    assigned = parse_read_options(
        SERVERS | {"assign": '{"t":[0,2]}', "startingOffsets": '{"t":{"0":5,"2":-2}}'}, streaming=False
    )
    pattern = parse_read_options(SERVERS | {"subscribePattern": "a.*"}, streaming=False)

    assert assigned.selection == Assigned((_at("t", 0), _at("t", 2)))
    assert assigned.starting == Named({_at("t", 0): 5, _at("t", 2): EARLIEST})
    assert pattern.selection == Pattern("a.*")


def test_a_time_goes_before_times_of_partitions_which_go_before_offsets() -> None:
    given = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"t":{"0":7}}',
        "startingOffsets": "earliest",
    }

    one = parse_read_options(SERVERS | {"subscribe": "t"} | given, streaming=False)
    del given["startingTimestamp"]
    each = parse_read_options(SERVERS | {"subscribe": "t"} | given, streaming=False)

    assert one.starting == Times(1000, {}, False)
    assert each.starting == Times(None, {_at("t", 0): 7}, False)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe and assign"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"subscribe": "a", "startingOffsets": "{"}, "startingOffsets is no JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, "a-0"),
        ({"subscribe": "a", "minPartitions": "0"}, "minPartitions is a number above 0"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, "maxTriggerDelay is a time"),
        ({"subscribe": "a", "kafka.isolation.level": "none"}, "kafka.isolation.level is read_committed"),
        ({"subscribePattern": "("}, "subscribePattern is no regular expression"),
        ({"assign": "[1]"}, "assign names no topic"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger"),
    ],
)
def test_what_is_wrong_is_said_with_the_options_name(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence.replace("(", r"\(")):
        parse_read_options(SERVERS | given, streaming=False)


def test_a_stream_takes_no_ending() -> None:
    with pytest.raises(InvalidOption, match="endingOffsets is for batches"):
        parse_read_options(SERVERS | {"subscribe": "a", "endingOffsets": "latest"}, streaming=True)


def test_without_a_server_nothing_is_read() -> None:
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers is missing"):
        parse_read_options({"subscribe": "a"}, streaming=True)


@pytest.mark.parametrize("name", ["kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.value.deserializer"])
def test_settings_that_the_source_decides_itself_are_refused_as_by_sparks_connector(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"Option {name} cannot be set"):
        parse_read_options(SERVERS | {"subscribe": "t", name: "x"}, streaming=True)


def test_other_settings_of_a_client_are_accepted_and_those_of_security_are_kept_apart() -> None:
    accepted = {"kafka.max.poll.records": "5", "kafka.security.protocol": "plaintext", "groupIdPrefix": "jobs"}
    parsed = parse_read_options(SERVERS | {"subscribe": "t", **accepted}, streaming=False)
    assert parsed.protection == (("security.protocol", "plaintext"),)


def test_security_that_cannot_be_is_refused_before_anybody_connects() -> None:
    for given, words in (
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl_mechanism"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS"}, "PEM"),
        ({"kafka.sasl.login.class": "x"}, "no setting 'sasl.login.class'"),
    ):
        with pytest.raises(InvalidOption, match=words):
            parse_read_options(SERVERS | {"subscribe": "t", **given}, streaming=False)
        with pytest.raises(InvalidOption, match=words):
            parse_write_options(SERVERS | {"topic": "t", **given})


def test_a_password_is_not_shown_with_the_options_and_the_sink_leaves_alone_what_its_producer_has_not() -> None:
    jaas = 'a.PlainLoginModule required username="anna" password="hidden-word";'
    secured = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas}
    read = parse_read_options(SERVERS | {"subscribe": "t", **secured}, streaming=True)
    written = parse_write_options(SERVERS | secured | {"kafka.send.buffer.bytes": "1", "kafka.linger.ms": "7"})
    assert "hidden-word" not in repr(read) + repr(written)
    assert dict(read.protection) == dict(written.protection) and written.producer == {"linger.ms": "7"}
