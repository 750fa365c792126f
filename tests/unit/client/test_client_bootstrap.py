"""Bootstrap servers as people write them."""

from __future__ import annotations

import pytest

from tidelog.client.core.bootstrap import InvalidBootstrapServers, parse_bootstrap_servers


@pytest.mark.req("S5")
def test_several_servers_are_separated_by_commas() -> None:
    assert parse_bootstrap_servers("a:9092, b:9093,,a:9092") == [("a", 9092), ("b", 9093)]


def test_an_ipv6_address_stands_in_brackets_and_a_protocol_may_come_before() -> None:
    assert parse_bootstrap_servers("PLAINTEXT://[::1]:9092") == [("::1", 9092)]


@pytest.mark.parametrize(
    "text", ["", " , ", "host", "host:", ":9092", "host:port", "host:0", "host:65536", "host:-1", "host:²"]
)
def test_what_is_no_server_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(InvalidBootstrapServers, match="HOST:PORT"):
        parse_bootstrap_servers(text)
