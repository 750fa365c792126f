"""Clients of Go and JavaScript against our broker, and the tests that the authors of one of them ship."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import languages
from harness.server import ServerProcess
from harness.tidelog_server import tidelog_server

# Enough for several batches, fetches and rebalances of each kind that franz-go's tests go through.
FRANZ_GO_RECORDS = 20_000


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    made = tidelog_server(tmp_path_factory.mktemp("broker"), {})
    made.start()
    yield made
    made.stop()


@pytest.mark.req("A13")
def test_what_franz_go_s_authors_test_works(server: ServerProcess) -> None:
    done = languages.franz_go_tests(server.bootstrap_servers, FRANZ_GO_RECORDS)

    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]


def test_sarama_writes_and_reads_each_compression_and_only_committed_transactions(server: ServerProcess) -> None:
    seen = languages.go("sarama", server.bootstrap_servers)

    lots = dict.fromkeys(("none", "gzip", "snappy", "lz4", "zstd"), 1000)
    assert seen["values"] == lots | {"committed": 5}
    assert "from-sarama" in seen["topics"]
    assert seen["members"] == 2
    # Ten records in transactions, and the marker behind each.
    assert seen["high_waters"] == seen["written"] + 20
    assert seen["written"] < seen["committed"] <= seen["high_waters"]


def test_kafka_go_writes_each_compression_and_reads_by_group_and_by_partition(server: ServerProcess) -> None:
    seen = languages.go("kafkago", server.bootstrap_servers)

    assert seen["in_group"] == dict.fromkeys(("none", "gzip", "snappy", "lz4", "zstd"), 1000)
    assert 0 < seen["in_partition"] == seen["last_offset"] < seen["written"]
    assert 0 < seen["committed"] <= seen["written"]


def test_kafkajs_uses_groups_transactions_and_the_admin_requests(server: ServerProcess) -> None:
    seen = languages.node("kafkajs.mjs", server.bootstrap_servers)

    assert seen["values"] == {"plain": 5000, "committed": 5}
    assert seen["members"] == 3
    assert seen["partitions"] == 8
    assert seen["retention"] == "600000"
    assert 5000 < seen["committed"] <= seen["ends"] == 5020


def test_platformatic_reads_everything_in_both_group_protocols(server: ServerProcess) -> None:
    seen = languages.node("platformatic.mjs", server.bootstrap_servers)

    assert seen["read"] == {"classic": 5000, "consumer": 5000}
