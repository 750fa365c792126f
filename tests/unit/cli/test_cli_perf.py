"""The perf commands: what they measure, against a broker in this process, and what they print."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

import tidelog
from tidelog.cli.commands import run
from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.java_dates import show_java_date
from tidelog.cli.kafka.run import run_kafka_command
from tidelog.cli.perf.latencies import Latencies
from tidelog.cli.perf.payloads import CountingPayloads, RandomPayloads, payloads_in
from tidelog.cli.perf.produce import ProducePlan, Tally, run_produce


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"num.partitions": 2, "group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def values_of(broker: tidelog.Broker, topic: str) -> list[bytes]:
    found = tidelog.read_topic(topic, broker.bootstrap_servers, columns=["value"], read_committed=True).to_arrow()
    values: list[bytes] = found.column(0).to_pylist()
    return values


def test_percentiles_are_those_of_what_was_measured() -> None:
    latencies = Latencies()
    assert latencies.percentiles_ms() == [0, 0, 0, 0]
    for number in range(1, 1001):
        latencies.add(number / 10)
    assert latencies.average_ms == pytest.approx(50.05)
    assert latencies.max_ms == 100
    assert latencies.percentiles_ms() == [50.0, 95.0, 99.0, 99.9]
    heavy = Latencies()
    heavy.add(1, 99)
    heavy.add(500, 1)
    assert heavy.percentiles_ms((50, 99, 100)) == [1, 1, 500]


def test_payloads_are_letters_lines_or_numbers(tmp_path: Path) -> None:
    letters = RandomPayloads(1000)
    first, second = letters.value(0), letters.value(1)
    assert re.fullmatch(rb"[A-Z]{1000}", first)
    assert first != second
    assert CountingPayloads().value(7) == b"7"
    file = tmp_path / "payloads"
    file.write_text("one\ntwo\n")
    listed = payloads_in(str(file), "\\n")
    assert {listed.value(number) for number in range(50)} == {b"one", b"two"}
    file.write_text("")
    with pytest.raises(BadInput):
        payloads_in(str(file), "\\n")


def test_dates_are_written_as_java_writes_them() -> None:
    moment = datetime(2026, 1, 2, 15, 4, 5, 67_000)
    assert show_java_date(moment, "yyyy-MM-dd HH:mm:ss:SSS") == "2026-01-02 15:04:05:067"
    assert show_java_date(moment, "dd.MM.yy 'at' h a") == "02.01.26 at 3 PM"
    with pytest.raises(ValueError, match="'Q'"):
        show_java_date(moment, "Q")


@pytest.mark.parametrize("throughput", [-1, 2000])
def test_every_record_is_written_once_and_measured(broker: tidelog.Broker, topic: str, throughput: float) -> None:
    windows: list[Tally] = []
    handed: list[int] = []
    plan = ProducePlan(
        topic=topic,
        records=1000,
        payloads=CountingPayloads(),
        settings={"bootstrap.servers": broker.bootstrap_servers, "acks": "1", "batch.size": 1000},
        throughput=throughput,
        warm_up_records=400,
        reporting_interval_ms=50,
    )
    result = run_produce(plan, windows.append, on_sent=handed.append)
    assert sorted(map(int, values_of(broker, topic))) == list(range(1000))
    assert result.total.records == result.total.latencies.count == 1000
    assert result.total.size_bytes == sum(len(str(number)) for number in range(1000))
    assert result.steady is not None
    assert 500 <= result.steady.records <= 600
    assert handed[-1] == 1000
    assert result.failed == 0
    if throughput > 0:
        assert 1000 <= result.total.records_per_s <= 2000
        assert len(windows) > 3
        assert sum(window.records for window in windows) <= 1000


def test_records_that_are_refused_are_counted_and_fail_the_command(
    broker: tidelog.Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
    large = ["--num-records", "10", "--record-size", "2000000", "--command-property", "max.request.size=4000000"]
    assert run_kafka_command("kafka-producer-perf-test", [*where, *large, "--throughput", "-1"]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("0 records sent, ")
    assert captured.err.startswith("10 records were not written: ")


def test_transactions_are_committed_while_records_are_written(broker: tidelog.Broker, topic: str) -> None:
    arguments = f"--topic {topic} --num-records 300 --throughput 1500 --payload-monotonic --transaction-duration-ms 20"
    code = run_kafka_command(
        "kafka-producer-perf-test", [*arguments.split(), "--bootstrap-server", broker.bootstrap_servers]
    )
    assert code == 0
    assert sorted(map(int, values_of(broker, topic))) == list(range(300))


def test_kafkas_consumer_command_counts_what_was_written(
    broker: tidelog.Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
    produce = [*where, "--num-records", "5000", "--throughput", "-1", "--record-size", "100"]
    assert run_kafka_command("kafka-producer-perf-test", produce) == 0
    capsys.readouterr()

    assert run_kafka_command("kafka-consumer-perf-test", [*where, "--num-records", "5000", "--hide-header"]) == 0
    numbers = capsys.readouterr().out.strip().split(", ")
    assert numbers[4] == "5000"
    assert float(numbers[2]) == pytest.approx(500_000 / 1024**2, abs=0.0001)

    detailed = [
        *where,
        "--num-records",
        "6000",
        "--show-detailed-stats",
        "--timeout",
        "300",
        "--reporting-interval",
        "200",
    ]
    assert run_kafka_command("kafka-consumer-perf-test", detailed) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("time, threadId, data.consumed.in.MB")
    assert "timeout (300 ms) exceeded" in lines[-1]
    assert lines[-2].split(", ")[4] == "5000"


def test_a_group_reads_on_where_it_was(broker: tidelog.Broker, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perf", "produce", topic, "-b", broker.bootstrap_servers, "-n", "2000", "--record-size", "10"]) == 0
    reading = ["perf", "consume", topic, "-b", broker.bootstrap_servers, "--group", topic, "--format", "json"]
    capsys.readouterr()
    assert run([*reading, "-n", "2000"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 2000
    assert run([*reading, "-n", "1", "--timeout-ms", "1000"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["records"] == 0
    assert "Only 0 of 1 records came." in captured.err


def test_latencies_are_shown_as_json_and_as_a_picture(
    broker: tidelog.Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [topic, "-b", broker.bootstrap_servers, "--format", "json", "--record-size", "50"]
    for command in (["produce"], ["end-to-end"], ["transactions", "--records", "2"]):
        picture = tmp_path / f"{command[0]}.png"
        assert run(["perf", *command, *where, "-n", "20", "--plot", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
        found = json.loads(capsys.readouterr().out)
        assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"] + 0.1


def test_an_end_to_end_run_prints_kafkas_lines(
    broker: tidelog.Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_kafka_command("kafka-e2e-latency", [broker.bootstrap_servers, topic, "30", "all", "20"]) == 0
    warning, first, average, percentiles = capsys.readouterr().out.splitlines()
    assert warning.startswith("WARNING: Positional argument usage is deprecated")
    assert re.fullmatch(r"0\t\d+\.\d+", first)
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", average)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+", percentiles)


def test_a_picture_that_could_not_be_drawn_is_refused_before_anything_is_measured(
    topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["perf", "produce", topic, "-b", "127.0.0.1:1", "--plot", "out.png"]) == 1
    assert "pip install 'tidelog[plot]'" in capsys.readouterr().err


@pytest.mark.req("S4")
def test_a_limit_of_minus_one_is_no_limit(broker: tidelog.Broker, topic: str) -> None:
    rates = []
    for throughput in (-1, 400):
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        plan = ProducePlan(
            topic=topic, records=400, payloads=RandomPayloads(10), settings=settings, throughput=throughput
        )
        rates.append(run_produce(plan).total.records_per_s)
    assert rates[1] <= 401 < rates[0]
