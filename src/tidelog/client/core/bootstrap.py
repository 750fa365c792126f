"""Bootstrap servers as people write them: "host:port,host:port"."""

from __future__ import annotations

from typing import Final

from tidelog.client.errors import ClientError

PORT_MAX: Final = 65535

Address = tuple[str, int]


class InvalidBootstrapServers(ClientError):
    """A list of servers that cannot be read."""


def parse_bootstrap_servers(text: str) -> list[Address]:
    """Read "a:9092,[::1]:9093", a protocol before "://" ignored; at least one address comes back, each once."""
    addresses = dict.fromkeys(_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise InvalidBootstrapServers("No bootstrap server given; write it as HOST:PORT.")
    return list(addresses)


def _address(text: str) -> Address:
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
        raise InvalidBootstrapServers(f"'{text}' is no bootstrap server; write it as HOST:PORT.")
    return host, int(port)
