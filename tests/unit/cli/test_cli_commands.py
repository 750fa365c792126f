"""The `tidelog` commands with a broker in this process: what they do, show, and end with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tidelog.cli.commands import run

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def command(
    broker: tidelog.Broker, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Run:
    """Run a command; gives exit code, standard output and standard error."""
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        file = tmp_path / "stdin"
        file.write_bytes(stdin)
        with file.open("rb") as opened:
            monkeypatch.setattr("sys.stdin", opened)
            code = run(arguments)
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return call


def as_json(result: tuple[int, str, str]) -> Any:
    """What a command with --format json wrote: JSON and nothing else."""
    code, out, error = result
    assert code == 0, error
    return json.loads(out)


def json_lines(result: tuple[int, str, str]) -> list[Any]:
    code, out, error = result
    assert code == 0, error
    return [json.loads(line) for line in out.splitlines()]


def test_a_topic_lives_from_create_to_delete(command: Run, topic: str) -> None:
    created = as_json(command("topics", "create", topic, "-p", "2", "-c", "retention.ms=1000", "--format", "json"))
    assert [(entry["name"], entry["partitions"]) for entry in created] == [(topic, 2)]
    assert topic in [entry["name"] for entry in as_json(command("topics", "list", "--format", "json"))]
    assert command("topics", "alter", topic, "-p", "3") == (0, "", f"Topic '{topic}' has 3 partitions now.\n")
    (described,) = as_json(command("topics", "describe", topic, "--format", "json"))
    assert described["configs"] == {"retention.ms": "1000"}
    assert [(partition["leader"], partition["isr"]) for partition in described["partitions"]] == [(1, [1])] * 3
    assert as_json(command("topics", "delete", topic, "--format", "json")) == [topic]
    assert command("topics", "describe", topic) == (1, "", f"Error: Topic '{topic}' does not exist.\n")


def test_what_is_there_or_missing_already_may_be_fine(command: Run, topic: str) -> None:
    assert command("topics", "delete", topic)[0] == 1
    assert command("topics", "delete", topic, "--if-exists")[0] == 0
    assert command("topics", "create", topic)[0] == 0
    assert command("topics", "create", topic) == (1, "", f"Topic '{topic}' exists already.\n")
    assert command("topics", "create", topic, "--if-not-exists")[0] == 0


def test_a_table_is_for_people_and_nothing_is_cut_off_in_a_pipe(command: Run, topic: str) -> None:
    name = topic + "x" * 150
    assert command("topics", "create", name)[0] == 0
    code, out, _ = command("topics", "list")
    assert code == 0
    (row,) = [line.split() for line in out.splitlines() if line.startswith(name)]
    assert row == [name, "1", "1"]
    code, out, _ = command("topics", "describe", name)
    assert "\x1b" not in out
    assert out.splitlines()[1].split() == ["partition", "leader", "epoch", "replicas", "in", "sync"]


@pytest.mark.req("A19", "H11")
def test_lines_become_records_and_records_lines(command: Run, topic: str) -> None:
    command("topics", "create", topic)
    options = ("-k", ":", "-H", "from=test", "--null", "NULL")
    code, out, error = command("produce", topic, *options, stdin=b"k1:v1\nk2:v:2\nk3:NULL\n\xff:\xfe\n")
    assert (code, out, error) == (0, "", f"Wrote 4 records to '{topic}'.\n")
    code, out, _ = command("consume", topic, "--keys", "--headers", "--offsets", "-n", "3")
    assert code == 0
    assert out.splitlines() == [
        f"{topic}-0@0\tfrom=test\tk1\tv1",
        f"{topic}-0@1\tfrom=test\tk2\tv:2",
        f"{topic}-0@2\tfrom=test\tk3\tnull",
    ]
    records = json_lines(command("consume", topic, "--format", "json"))
    assert [record.get("value") for record in records] == ["v1", "v:2", None, None]
    assert records[3]["value_base64"] == "/g=="
    assert records[0]["headers"] == [{"key": "from", "value": "test"}]


def test_json_that_comes_out_goes_into_another_topic_unchanged(command: Run, topic: str) -> None:
    for name in (topic, topic + "-copy"):
        command("topics", "create", name, "-p", "3")
    command("produce", topic, "-k", ":", stdin=b"".join(b"%d:\xff%d\n" % (number, number) for number in range(20)))
    code, out, _ = command("consume", topic, "--format", "json")
    summary = as_json(command("produce", topic + "-copy", "-i", "json", "--format", "json", stdin=out.encode()))
    assert (code, summary["written"], summary["failed"]) == (0, 20, 0)

    def comparable(name: str) -> list[tuple[object, ...]]:
        records = json_lines(command("consume", name, "--format", "json"))
        keys = ("partition", "offset", "timestamp", "key", "value_base64")
        return sorted(tuple(record[key] for key in keys) for record in records)

    assert comparable(topic) == comparable(topic + "-copy")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_written_with_any_codec_and_acknowledgement(
    command: Run, topic: str, codec: str, acks: str
) -> None:
    command("topics", "create", topic)
    lines = b"".join(b"line %d\n" % number for number in range(100))
    assert command("produce", topic, "-z", codec, "--acks", acks, stdin=lines)[0] == 0
    assert command("consume", topic)[1].encode() == lines


@pytest.mark.req("K6", "K7", "K12")
def test_reading_begins_where_it_is_told_to(command: Run, topic: str) -> None:
    command("topics", "create", topic, "-p", "2")
    lines = b"".join(b'{"value": "%d", "partition": %d, "timestamp": %d}\n' % (n, n % 2, 1000 * n) for n in range(10))
    command("produce", topic, "-i", "json", stdin=lines)

    def values(*options: str) -> list[int]:
        code, out, error = command("consume", topic, *options)
        assert code == 0, error
        return sorted(int(line) for line in out.split())

    assert values() == values("--from-beginning") == list(range(10))
    assert values("--offset", "3") == [6, 7, 8, 9]
    assert values("--last", "1") == [8, 9]
    assert values("--from-time", "7000") == [7, 8, 9]
    assert values("--from-time", "-1m") == []
    assert values("-p", "1") == [1, 3, 5, 7, 9]
    assert values("-p", "1", "-n", "2") == [1, 3]
    assert values("-p", "0", "--offset", "1", "-f", "-n", "2") == [2, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["consume", "nowhere"], "Topic 'nowhere' does not exist."),
        (["offsets", "nowhere"], "Topic 'nowhere' does not exist."),
        (["delete-records", "nowhere", "--all"], "Topic 'nowhere' does not exist."),
        (["produce", "bad/name"], "The topic name is not valid."),
        (["topics", "alter", "nowhere", "-p", "2"], "Topic 'nowhere' does not exist."),
        (["configs", "describe", "-t", "nowhere"], "Topic 'nowhere' does not exist."),
        (["configs", "describe", "--broker", "77"], "There is no broker with id 77."),
        (["dump", "codec", "Fetch", "99"], "FetchRequest has versions 4-18, not 99"),
        (["consume", "t", "-b", "nonsense"], "'nonsense' is no bootstrap server; write it as HOST:PORT."),
    ],
)
def test_what_fails_is_said_in_a_sentence(command: Run, arguments: list[str], words: str) -> None:
    code, out, error = command(*arguments, stdin=b"x\n")
    assert code in (1, 2)
    assert out == ""
    assert words in error
    assert "Traceback" not in error


def test_a_line_that_cannot_be_read_is_named(command: Run, topic: str) -> None:
    command("topics", "create", topic)
    code, _, error = command("produce", topic, "-k", "|", stdin=b"a|b\nno key\n")
    assert code == 1
    assert "No key separator found on line number 2: 'no key'" in error
    code, _, error = command("produce", topic, "-i", "json", stdin=b'{"value": 5}\n')
    assert code == 1
    assert "Line 1 is no record in JSON" in error
    # What came before the bad line is written.
    assert command("consume", topic)[1] == "b\n"


def test_a_record_that_is_refused_is_counted_and_told(command: Run, topic: str) -> None:
    command("topics", "create", topic, "-c", "max.message.bytes=200")
    code, out, error = command("produce", topic, "--format", "json", stdin=b"x" * 1000 + b"\n")
    assert code == 1
    assert json.loads(out) == {"topic": topic, "written": 0, "failed": 1, "partitions": {}}
    assert "1 not written" in error


def test_offsets_and_delete_records(command: Run, topic: str) -> None:
    command("topics", "create", topic)
    command("produce", topic, stdin=b"a\nb\nc\n")
    deleted = command("delete-records", topic, "--before", "1", "--format", "json")
    assert as_json(deleted) == [{"topic": topic, "partition": 0, "begin": 1}]
    shown = command("offsets", topic, "--format", "json", "--at", "-1h")
    assert as_json(shown) == [{"topic": topic, "partition": 0, "begin": 1, "end": 3, "at": 1, "records": 2}]
    code, out, _ = command("delete-records", topic, "--all")
    assert (code, out.split()) == (0, ["partition", "begins", "at", "0", "3"])
    code, _, error = command("delete-records", topic, "--before", "99")
    assert code == 1
    assert error.startswith(f"Error: {topic}-0: ")


def test_settings_are_shown_with_where_they_come_from(command: Run, topic: str) -> None:
    command("topics", "create", topic)
    assert command("configs", "alter", "-t", topic, "-s", "retention.ms=5000", "-s", "segment.bytes=1048576")[0] == 0
    assert command("configs", "alter", "-t", topic, "-d", "segment.bytes")[0] == 0
    (setting,) = as_json(command("configs", "describe", "-t", topic, "--format", "json"))
    assert (setting["name"], setting["value"], setting["source"]) == ("retention.ms", "5000", "dynamic_topic_config")
    assert len(as_json(command("configs", "describe", "-t", topic, "--all", "--format", "json"))) > 20
    code, _, error = command("configs", "alter", "-t", topic, "-s", "retention.ms=soon")
    assert (code, "retention.ms" in error) == (1, True)
    names = {entry["name"] for entry in as_json(command("configs", "describe", "--broker", "1", "--format", "json"))}
    assert "log.dirs" in names


def test_the_cluster_and_its_directories_are_shown(command: Run, topic: str, broker: tidelog.Broker) -> None:
    command("topics", "create", topic)
    command("produce", topic, stdin=b"a\n")
    cluster = as_json(command("cluster", "--format", "json"))
    (node,) = cluster["brokers"]
    held = node["holds"]
    assert node == {
        "id": 1,
        "host": "127.0.0.1",
        "port": broker.port,
        "rack": None,
        "leads": held,
        "holds": held,
        "in_sync": held,
    }
    assert held >= 1
    assert as_json(command("cluster", "status", "--format", "json")) == cluster
    (replica,) = as_json(command("log-dirs", "-t", topic, "--format", "json"))
    assert (replica["directory"], replica["topic"]) == (str(broker.data), topic)
    assert replica["size_bytes"] > 0
    assert command("cluster")[1].splitlines()[1].split()[:2] == ["1", f"127.0.0.1:{broker.port}"]


def test_a_cluster_is_watched_once_or_as_lines_of_json(command: Run, topic: str, broker: tidelog.Broker) -> None:
    command("topics", "create", topic)
    command("produce", topic, stdin=b"a\nb\n")
    watched = as_json(command("watch", "--once", "--topic", topic, "--format", "json"))
    (partition,) = watched["partitions"]
    assert (partition["leader"], partition["high_watermark"], partition["end_offsets"]) == (1, 2, {"1": 2})
    assert watched["controller"] == 1
    lines = json_lines(command("watch", "--seconds", "0.3", "--interval", "0.1", "--topic", topic, "--format", "json"))
    assert len(lines) >= 2
    assert lines[-1]["partitions"] == watched["partitions"]
    assert f"{topic}-0" in command("watch", "--once", "--topic", topic)[1]


def test_codecs_and_logs_are_dumped(command: Run, topic: str, broker: tidelog.Broker) -> None:
    dumped = as_json(command("dump", "codec", "Fetch", "13", "--format", "json"))
    assert dumped["version"] == 13
    assert set(dumped["sources"]) == {"FetchRequest", "FetchResponse"}
    code, out, _ = command("dump", "codec", "3", "--request")
    assert code == 0
    assert out.startswith("# MetadataRequest v13\ndef read(")
    command("topics", "create", topic)
    command("produce", topic, "-k", ":", "-z", "gzip", stdin=b"k:v\n")
    (file,) = (broker.data / f"{topic}-0").glob("*.log")
    (batch,) = json_lines(command("dump", "log", str(file), "--records", "--format", "json"))
    assert (batch["compression"], batch["valid"], batch["records"][0]["key"]) == ("gzip", True, "k")
    code, out, _ = command("dump", "log", str(file))
    assert (code, out.splitlines()[1].split()[0]) == (0, "0-0")


def test_a_reader_that_goes_away_is_no_failure(command: Run, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command("topics", "create", topic)
    command("produce", topic, stdin=b"x" * 500_000 + b"\n")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert run(["consume", topic]) == 0
