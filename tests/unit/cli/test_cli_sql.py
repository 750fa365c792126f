"""`tidelog sql` with DuckDB: topics are tables."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import tidelog
from tidelog.cli.sql import sql

NOON_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker() as running:
        with tidelog.Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            for number in range(30):
                value = json.dumps({"city": ["Brest", "Vigo"][number % 2], "amount": number}).encode()
                producer.send("orders", value, b"key %d" % (number % 3), timestamp_ms=NOON_MS + 1000 * number)
            producer.send("cities", b"France", b"Brest")
            producer.send("cities", b"Spain", b"Vigo")
            producer.send("bytes", b"\xff\xfe")
        yield running


def ask(broker: tidelog.Broker, query: str, *options: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(sql, [query, "-b", broker.bootstrap_servers, "--format", "json", *options])
    if done.exception is not None:
        raise done.exception
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


@pytest.mark.req("S9")
def test_topics_are_tables_that_can_be_grouped_and_joined(broker: tidelog.Broker) -> None:
    counts = ask(broker, "select key, count(*) as records from orders group by key order by key")
    joined = ask(
        broker,
        "select c.value as country, sum(cast(o.value->>'$.amount' as int)) as amount "
        "from orders o join cities c on o.value->>'$.city' = c.key group by 1 order by 1",
    )

    assert counts == [{"key": f"key {number}", "records": 10} for number in range(3)]
    assert joined == [{"country": "France", "amount": 210}, {"country": "Spain", "amount": 225}]


def test_a_topic_is_asked_as_it_was_at_a_time(broker: tidelog.Broker) -> None:
    assert ask(broker, "select count(*) as n from orders", "--as-of", str(NOON_MS + 10_000)) == [{"n": 10}]


def test_what_is_no_text_is_shown_as_bytes_when_asked_to(broker: tidelog.Broker) -> None:
    with pytest.raises(Exception, match="add --bytes"):
        ask(broker, "select value from bytes")
    assert ask(broker, "select octet_length(value) as size from bytes", "--bytes") == [{"size": 2}]


def test_a_topic_that_is_not_there_and_sql_that_is_none_are_said(broker: tidelog.Broker) -> None:
    with pytest.raises(Exception, match="Topic 'nowhere' does not exist"):
        ask(broker, "select * from nowhere")
    with pytest.raises(Exception, match="syntax error"):
        ask(broker, "selec 1")
