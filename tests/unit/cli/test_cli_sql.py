"""`tidelog sql` with DuckDB: topics are tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
    with pytest.raises(Exception, match=r"This is no SQL: .* at line 1, column 7"):
        ask(broker, "selec 1")
    with pytest.raises(Exception, match="write one SELECT"):
        ask(broker, "drop table orders")
    with pytest.raises(Exception, match='Referenced column "nothing" not found'):
        ask(broker, "select nothing from orders")


def test_a_table_is_asked_as_of_a_time_or_an_offset_of_its_own(broker: tidelog.Broker) -> None:
    then = datetime.fromtimestamp(NOON_MS / 1000 + 20, UTC).isoformat()
    query = (
        f"with young as (select 1) select (select count(*) from orders as of '{then}') as at_time, "
        "(select count(*) from orders as of offset 7 o where o.offset < 100) as at_offset, "
        "(select count(*) from orders) as whole, (select count(*) from young) as mine"
    )

    assert ask(broker, query, "--as-of", str(NOON_MS + 10_000)) == [
        {"at_time": 20, "at_offset": 7, "whole": 10, "mine": 1}
    ]
    for wrong, said in {"'soon'": "is no time", "offset 'x'": "needs a number", "5 + 5": "needs a time"}.items():
        with pytest.raises(Exception, match=said):
            ask(broker, f"select * from orders as of {wrong}")


def test_the_newest_value_of_each_key_is_a_table_too(broker: tidelog.Broker) -> None:
    newest = ask(broker, "select key, cast(value->>'$.amount' as int) as amount from latest(orders) order by key")
    earlier = ask(broker, "select count(*) as n from latest(orders) as of offset 2")

    assert newest == [{"key": f"key {number}", "amount": 27 + number} for number in range(3)]
    assert earlier == [{"n": 2}]


@pytest.mark.req("S9")
def test_views_of_typed_topics_are_created_listed_used_and_dropped(broker: tidelog.Broker, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        views = ["--views", str(tmp_path / "views.toml"), "-b", broker.bootstrap_servers]
        done = CliRunner().invoke(sql, [*arguments, *views])
        if done.exception is not None:
            raise done.exception
        return done.stdout

    run("--create-view", "sales", "--topic", "orders", "--value-format", "json", "--schema", "city string, amount int")
    columns = run("select * from sales limit 0", "--format", "csv")
    sums = run("select city, sum(amount) as n from sales as of offset 10 group by 1 order by 1", "--format", "json")
    newest = run("select key, amount, s.offset from latest(sales) s order by key", "--format", "csv")
    listed = run("--list-views", "--format", "json")
    table = run("--list-views")
    run("--drop-view", "sales")

    assert columns == "city,amount,key,partition,offset,timestamp\n"
    assert json.loads(sums) == [{"city": "Brest", "n": 20}, {"city": "Vigo", "n": 25}]
    assert newest == "key,amount,offset\nkey 0,27,27\nkey 1,28,28\nkey 2,29,29\n"
    assert json.loads(listed)[0]["topic"] == "orders" and "city string" in table
    assert run("--list-views", "--format", "json").strip() == "[]"
    with pytest.raises(Exception, match="There is no view 'sales'"):
        run("--drop-view", "sales")
    with pytest.raises(Exception, match="A view needs --topic"):
        run("--create-view", "sales")
    with pytest.raises(Exception, match="View 'sales': avro needs a schema"):
        run("--create-view", "sales", "--topic", "orders", "--value-format", "avro")
    with pytest.raises(Exception, match="Give a query"):
        run()
