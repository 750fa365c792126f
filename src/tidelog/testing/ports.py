"""Ports for servers that must know theirs before they start: brokers of a test cluster, servers of our own tests.

They lie below those that the system gives to outgoing connections, so none is taken between the choice and the start.
Processes choose from stretches of their own, so test runs beside each other do not meet.
"""

from __future__ import annotations

import os
import socket
from itertools import count as count_up
from pathlib import Path
from typing import Final

from tidelog.testing.network import HOST

PORT_FIRST: Final = 10_000
# Where the outgoing connections of a system begin that does not say it.
OUTGOING_FIRST: Final = 32_768
# How many a process chooses before it comes to those of the next process.
STRETCH: Final = 601
_taken = count_up()


def free_ports(count: int) -> list[int]:
    """This many ports that nobody uses, one after the other; none is chosen twice soon."""
    span = _outgoing_first() - PORT_FIRST
    for _ in range(span):
        start = PORT_FIRST + (os.getpid() * STRETCH + next(_taken)) % span
        ports = list(range(start, start + count))
        if all(_is_free(port) for port in ports):
            for _ in ports[1:]:
                next(_taken)
            return ports
    raise OSError(f"no {count} ports in a row are free from {PORT_FIRST} on")


def _outgoing_first() -> int:
    try:
        return max(int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]), PORT_FIRST + STRETCH)
    except (OSError, ValueError):
        return OUTGOING_FIRST


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
