"""Addresses in settings: listeners (`NAME://host:port`), voters (`id@host:port`) and plain `host:port`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId

PORT_MAX: Final = 65535
_ADDRESS: Final = re.compile(r"(?:\[([0-9a-zA-Z\-%._:]*)\]|([0-9a-zA-Z\-%._]*)):([0-9]+)")


class SecurityProtocol(IntEnum):
    """The numbers are those of the protocol."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Address(NamedTuple):
    """A host, without the brackets of IPv6, and a port; an empty host is every interface."""

    host: str
    port: int


class ListenerAddress(NamedTuple):
    """One listener of a node."""

    name: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class Voter(NamedTuple):
    """One voter of a fixed metadata quorum."""

    node_id: NodeId
    host: str
    port: int


def _refused(name: str, value: str, problem: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {problem}")


def parse_address(name: str, text: str) -> Address:
    """Read host:port or [IPv6]:port; `name` is the setting, for the error."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[3]) > PORT_MAX:
        raise _refused(name, text, f"an address is host:port, with a port of 0 to {PORT_MAX}")
    return Address(found[1] or found[2] or "", int(found[3]))


def parse_listeners(
    name: str, texts: Iterable[str], protocols: dict[str, SecurityProtocol]
) -> tuple[ListenerAddress, ...]:
    """Read NAME://host:port, … Names are in upper case, there once, and have a security protocol."""
    listeners: dict[str, ListenerAddress] = {}
    for text in texts:
        label, separator, address = text.partition("://")
        label = label.upper()
        if not separator or not label:
            raise _refused(name, text, "a listener is NAME://host:port")
        if label in listeners:
            raise _refused(name, text, "each listener must have a different name")
        if label not in protocols:
            raise _refused(
                name, text, f"no security protocol is defined for listener {label} in listener.security.protocol.map"
            )
        listeners[label] = ListenerAddress(label, *parse_address(name, address), protocols[label])
    bound = [(listener.host, listener.port) for listener in listeners.values() if listener.port != 0]
    if name == "listeners" and len(set(bound)) < len(bound):
        raise _refused(name, ",".join(texts), "each listener must have a different port")
    return tuple(listeners.values())


def parse_protocol_map(name: str, text: str) -> dict[str, SecurityProtocol]:
    """Read LISTENER:PROTOCOL,LISTENER:PROTOCOL, …"""
    protocols: dict[str, SecurityProtocol] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        label, _, protocol = pair.partition(":")
        if protocol.strip().upper() not in SecurityProtocol.__members__:
            raise _refused(name, pair, f"a security protocol is one of {', '.join(SecurityProtocol.__members__)}")
        protocols[label.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocols


def parse_voters(name: str, texts: Iterable[str]) -> tuple[Voter, ...]:
    """Read id@host:port, …"""
    voters: dict[NodeId, Voter] = {}
    for text in texts:
        number, separator, address = text.partition("@")
        if not separator or not number.isdecimal() or int(number) in voters:
            raise _refused(name, text, "a voter is id@host:port, with an id of its own")
        voters[NodeId(int(number))] = Voter(NodeId(int(number)), *parse_address(name, address))
    return tuple(voters.values())


def parse_counts(name: str, text: str) -> dict[str, int]:
    """Read host:count,host:count, …"""
    counts: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not count.isdecimal():
            raise _refused(name, pair, "a limit is host:count")
        counts[host.strip()] = int(count)
    return counts
