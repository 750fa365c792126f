"""`tidelog log` on the folders of real brokers, stopped and running."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidelog
from harness.raw_client import RawClient, batch_of, create_topic, fetch_request, produce, produce_request
from tidelog.cli.commands import run
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.records import Record, build_batch, read_records

Run = Callable[..., tuple[int, str, str]]
HOUR_MS = 3_600_000


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def as_json(result: tuple[int, str, str], code: int = 0) -> Any:
    assert result[0] == code, result
    return json.loads(result[1])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory that a broker left."""
    path = tmp_path / "data"
    with tidelog.Broker(data=path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "tides", 2, segment_bytes="1048576", retention_ms=str(HOUR_MS))
        for number in range(30):
            produce(client, "tides", *(b"%d-%d" % (number, index) + b"." * 50_000 for index in range(4)))
        now_ms = int(time.time() * 1000)
        keyed = [Record(0, now_ms, b"key-%d" % (number % 3), b"v%d" % number) for number in range(12)]
        keyed.append(Record(0, now_ms, b"gone", None))
        client.ask(produce_request("tides", build_batch(keyed), 1), ProduceResponse, 12)
    return path


def test_a_directory_and_a_partition_are_described(data: Path, command: Run) -> None:
    (directory,) = as_json(command("log", "describe", str(data), "--format", "json"))
    by_name = {row["partition"]: row for row in directory["partitions"]}
    assert by_name["tides-0"]["end_offset"] == by_name["tides-0"]["high_watermark"] == 120
    assert by_name["tides-0"]["segments"] > 3
    assert "__cluster_metadata-0" in by_name

    (partition,) = as_json(command("log", "describe", str(data / "tides-0"), "--format", "json"))
    kept = [segment["kept_because"] for segment in partition["segments"]]
    assert "younger than retention.ms" in kept[0]
    assert "left" in kept[0]
    assert kept[-1] == "it is the active one"
    assert all(segment["offset_index_entries"] > 0 for segment in partition["segments"][:-1])
    code, out, _ = command("log", "describe", str(data / "tides-0"))
    assert code == 0
    assert "kept because" in out


def test_the_keys_of_a_partition_are_counted(data: Path, command: Run) -> None:
    (partition,) = as_json(command("log", "describe", str(data / "tides-1"), "--keys", "--format", "json"))
    keys = partition["keys"]
    assert (keys["records"], keys["distinct_keys"], keys["tombstones"], keys["superseded"]) == (13, 4, 1, 9)
    assert (keys["largest"][0]["key"], keys["largest"][0]["records"]) == ("key-0", 4)
    assert "key-0" in command("log", "describe", str(data / "tides-1"), "--keys")[1]


def test_batches_and_indexes_are_dumped(data: Path, command: Run) -> None:
    code, out, _ = command("log", "dump", str(data / "tides-1"), "--records", "--format", "json")
    assert code == 0
    assert [record["key"] for record in json.loads(out)["records"]][-1] == "gone"
    for suffix in ("index", "timeindex"):
        code, out, _ = command("log", "dump", str(data / "tides-0" / f"{0:020d}.{suffix}"), "--format", "json")
        assert code == 0
        assert len(out.splitlines()) >= (3 if suffix == "index" else 1), "no two entries for one time"
    assert command("dump", "log", str(data / "tides-1"))[0] == 0, "the old name"


def test_a_sound_directory_is_verified_and_a_damaged_one_is_not(data: Path, command: Run) -> None:
    report = as_json(command("log", "verify", str(data), "--format", "json"))
    assert report["sound"]
    assert report["records"] >= 133
    damaged = data / "tides-0" / f"{0:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[1000] ^= 1
    damaged.write_bytes(content)

    report = as_json(command("log", "verify", str(data), "--format", "json"), code=1)
    (finding,) = report["findings"]
    assert (finding["kind"], finding["severity"], finding["offset"]) == ("checksum", "damaged", 0)
    assert as_json(command("log", "verify", str(data), "-t", "other", "--format", "json"))["sound"]
    code, out, error = command("log", "verify", str(data / "tides-0"), "--quick")
    assert code == 1
    assert "checksum" in out
    assert "1 problems" in error


def test_what_cannot_be_read_is_cut_off_and_the_rest_is_sound_again(data: Path, command: Run) -> None:
    logs = sorted((data / "tides-0").glob("*.log"))
    torn = logs[-1]
    torn.write_bytes(torn.read_bytes()[:-100])
    logs[0].with_suffix(".index").write_bytes(b"nonsense")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}

    (planned,) = as_json(command("log", "recover", str(data / "tides-0"), "--dry-run", "--format", "json"))
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    (done,) = as_json(command("log", "recover", str(data / "tides-0"), "--format", "json"))

    assert planned == done
    assert done["end_offset_after"] == 116
    assert done["cut_bytes"] > 0
    assert {"torn-end", "index-entry"} <= set(done["problems"])
    assert as_json(command("log", "verify", str(data / "tides-0"), "--format", "json"))["sound"]
    with tidelog.Broker(data=data) as broker, RawClient(broker.bootstrap_servers) as client:
        response = client.ask(fetch_request("tides", {0: 0}), FetchResponse, 12)
        assert response.responses[0].partitions[0].high_watermark == 116


def test_a_directory_in_use_is_not_recovered(data: Path, command: Run) -> None:
    with tidelog.Broker(data=data):
        code, _, error = command("log", "recover", str(data))
    assert code == 1
    assert "in use by a broker" in error


@pytest.mark.req("P4")
def test_expired_segments_are_archived_and_come_back_as_a_read_only_topic(tmp_path: Path, command: Run) -> None:
    config = {
        "log.retention.check.interval.ms": 100,
        "tidelog.log.archive.dir": tmp_path / "archive",
        "tidelog.log.archive.topics": "tides",
    }
    hour_ago_ms = int(time.time() * 1000) - HOUR_MS
    sent: list[bytes] = []
    with tidelog.Broker(data=tmp_path / "data", config=config) as broker, RawClient(broker.bootstrap_servers) as client:
        for name in ("tides", "others"):
            create_topic(client, name, 2, segment_bytes="1048576", retention_ms="60000")
            for number in range(40):
                value = b"%d" % number + b"." * 100_000
                batch = batch_of(value, timestamp_ms=hour_ago_ms)
                client.ask(produce_request(name, batch, 1), ProduceResponse, 12)
                sent += [value] if name == "tides" else []
        deadline = time.monotonic() + 20
        while start_of(client, "tides") < 40 or start_of(client, "others") < 40 or waiting(tmp_path / "data"):
            assert time.monotonic() < deadline, "nothing expired"
            time.sleep(0.05)
        (archived,) = (tmp_path / "archive").iterdir()
        assert archived.name.startswith("tides.")

        arguments = ("log", "restore", str(archived), "--as", "tides-of-old", "--data", str(tmp_path / "data"))
        report = as_json(command(*arguments, "-b", broker.bootstrap_servers, "--format", "json"))
        assert [(row["partition"], row["start_offset"], row["end_offset"]) for row in report["partitions"]] == [
            ("tides-of-old-1", 0, 40)
        ]
        assert read_all(client, "tides-of-old") == sent
        refused = client.ask(produce_request("tides-of-old", batch_of(b"new"), 1), ProduceResponse, 12)
        assert refused.responses[0].partition_responses[0].error_code == ErrorCode.POLICY_VIOLATION
        again = command(*arguments, "-b", broker.bootstrap_servers)
        assert (again[0], "exists already" in again[2]) == (1, True)
    with tidelog.Broker(data=tmp_path / "data", config=config) as broker, RawClient(broker.bootstrap_servers) as client:
        time.sleep(0.3)  # Retention looks again.
        assert read_all(client, "tides-of-old") == sent
        refused = client.ask(produce_request("tides-of-old", batch_of(b"new"), 1), ProduceResponse, 12)
        assert refused.responses[0].partition_responses[0].error_code == ErrorCode.POLICY_VIOLATION


def start_of(client: RawClient, topic: str) -> int:
    response = client.ask(fetch_request(topic, {1: 0}), FetchResponse, 12)
    return response.responses[0].partitions[0].log_start_offset


def waiting(data: Path) -> list[Path]:
    return list(data.rglob("*.archive"))


def read_all(client: RawClient, topic: str) -> list[bytes]:
    values: list[bytes] = []
    while True:
        response = client.ask(fetch_request(topic, {1: len(values)}, partition_max_bytes=1 << 24), FetchResponse, 12)
        data = response.responses[0].partitions[0].records
        if not data:
            return values
        from tidelog.wire.batch import iter_headers

        view = memoryview(data)
        for position, _ in iter_headers(view):
            values += [record.value or b"" for record in read_records(view, position)]
