"""How Kafka's commands read their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of, properties_of
from tidelog.cli.kafka.record_formats import deserializer, formatter
from tidelog.cli.kafka.topic_filter import TopicFilter
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.errors import InvalidOption
from tidelog.model.ids import Offset, PartitionIndex, TopicName


def parser() -> KafkaParser:
    made = KafkaParser("kafka-test", "For a test.")
    made.bootstrap()
    made.flag("--alter", "")
    made.option("--partitions", "N", "", type=int)
    made.option("--config", "K=V", "", action="append")
    made.old("--partition", "--partitions")
    return made


def test_options_are_read_with_blank_or_equals_sign() -> None:
    options = parser().read(["--bootstrap-server=a:1", "--partitions", "3", "--config", "k=v", "--config", "l=w"])
    assert (options.bootstrap_server, options.partitions, options.config) == ("a:1", 3, ["k=v", "l=w"])


@pytest.mark.req("M6", "M8")
def test_old_spellings_are_taken_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    options = parser().read(["--zookeeper", "a:1", "-alter", "--partition", "2"])
    assert (options.bootstrap_server, options.alter, options.partitions) == ("a:1", True, 2)
    assert capsys.readouterr().err == (
        "Warning: old spelling, --zookeeper is --bootstrap-server today, -alter is --alter today, "
        "--partition is --partitions today.\n"
    )


def test_today_s_spellings_need_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    parser().read(["--bootstrap-server", "a:1", "--alter", "--config", "-x=--y"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--nonsense"], ["--partitions", "many"], ["--partitions"], ["word"]]
)
def test_a_wrong_call_and_help_end_with_1_as_kafka_does(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().read(arguments)
    assert ended.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--bootstrap-server" in captured.err


def test_a_missing_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    made = parser()
    with pytest.raises(SystemExit):
        made.require(made.read(["--alter"]), "bootstrap-server")
    assert capsys.readouterr().err.startswith('Missing required argument "[bootstrap-server]"\n')


def test_properties_come_from_a_file_and_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("acks=1\nlinger.ms = 5\n")
    assert properties_of(["acks=all", "empty="], str(file)) == {"acks": "all", "linger.ms": "5", "empty": ""}
    with pytest.raises(BadInput, match="no-equals-sign"):
        properties_of(["no-equals-sign"])


def test_a_protocol_that_is_not_spoken_is_not_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n")
    options = parser().read(["--bootstrap-server", "a:1", "--command-config", str(file)])
    with pytest.raises(InvalidOption, match=r"sasl_mechanism=GSSAPI is not one of PLAIN"):
        cluster_of(options)


@pytest.mark.parametrize(
    ("expression", "name", "matches"),
    [
        ("test", "test", True),
        ("test", "test1", False),
        ("te.*", "test", True),
        ("a,b", "b", True),
        ('"quoted"', "quoted", True),
        ("a|b", "ab", False),
    ],
)
def test_a_topic_expression_matches_whole_names(expression: str, name: str, matches: bool) -> None:
    assert TopicFilter(expression).matches(name) is matches


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="invalid regex"):
        TopicFilter("(")


RECORD = ConsumerRecord(TopicName("t"), PartitionIndex(2), Offset(7), 99, None, b"v", (("a", b"1"), ("b", None)), True)


def test_a_line_holds_what_was_asked_for_in_kafka_s_order() -> None:
    names = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    everything = {f"print.{name}": "true" for name in names}
    assert formatter(None, everything)(RECORD) == (
        b"LogAppendTime:99\tPartition:2\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\ta:1,b:null\tnull\tv\n"
    )
    assert formatter("org.apache.kafka.tools.consumer.DefaultMessageFormatter", {})(RECORD) == b"v\n"
    assert formatter("NoOpMessageFormatter", {})(RECORD) == b""


def test_separators_and_the_word_for_null_can_be_chosen() -> None:
    chosen = {
        "print.key": "true",
        "print.headers": "TRUE",
        "key.separator": "|",
        "line.separator": ";",
        "null.literal": "-",
        "headers.separator": " ",
    }
    assert formatter(None, chosen)(RECORD) == b"a:1 b:-|-|v;"


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", (5).to_bytes(8, "big"), b"5"),
        ("IntegerDeserializer", (-1).to_bytes(4, "big", signed=True), b"-1"),
        ("StringDeserializer", b"\xff", "\ufffd".encode()),
        ("ByteArrayDeserializer", b"\xff", b"\xff"),
        ("BooleanDeserializer", b"\x01", b"true"),
    ],
)
def test_kafka_s_deserializers_are_known_by_their_class_names(name: str, content: bytes, shown: bytes) -> None:
    assert deserializer(name)(content) == shown


def test_what_does_not_fit_a_deserializer_and_unknown_classes_are_refused() -> None:
    with pytest.raises(BadInput, match="not 8"):
        deserializer("LongDeserializer")(b"abc")
    with pytest.raises(BadInput, match=r"my\.Own"):
        deserializer("my.Own")
    with pytest.raises(BadInput, match=r"my\.Own"):
        formatter("my.Own", {})
