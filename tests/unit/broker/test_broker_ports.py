"""What a broker takes of the machine that it runs on."""

from __future__ import annotations

import asyncio
import resource

import pytest

from tidelog.broker.ports import OPEN_FILES_LIMIT, real_ports
from tidelog.log.open_files import OPEN_FILES_MAX


@pytest.mark.parametrize(
    ("descriptors", "files"),
    [
        (1024, OPEN_FILES_MAX),
        (20_000, 5_000),
        (1_000_000, OPEN_FILES_LIMIT),
        (resource.RLIM_INFINITY, OPEN_FILES_LIMIT),
    ],
)
def test_segments_keep_their_files_open_within_a_share_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, files: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    loop = asyncio.new_event_loop()
    ports = real_ports(loop)
    try:
        assert ports.open_files_max == files
    finally:
        ports.executor.shutdown()
        loop.close()
