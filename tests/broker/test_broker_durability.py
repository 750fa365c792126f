"""`durability="fsync"`: what is acknowledged was synced before, in every topic, also the broker's own."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from harness.raw_client import RawClient, batch_of, create_topic, produce_request
from tidelog.env.files import RealFile
from tidelog.wire.messages.produce import ProduceResponse


@pytest.mark.req("C5")
@pytest.mark.parametrize("acks", [1, -1])
def test_a_record_is_on_the_disk_before_it_is_acknowledged(
    acks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    sync = RealFile.sync

    def noted(file: RealFile) -> None:
        size = file.size()
        sync(file)
        synced.append((file.path, size))

    monkeypatch.setattr(RealFile, "sync", noted)
    with (
        tidelog.Broker(data=tmp_path / "data", durability="fsync") as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "tides")
        path = tmp_path / "data" / "tides-0" / f"{0:020d}.log"
        for number in range(5):
            response = client.ask(produce_request("tides", batch_of(b"v"), acks=acks), ProduceResponse, 12)
            assert response.responses[0].partition_responses[0].base_offset == number
            assert (str(path), path.stat().st_size) in synced


def test_another_promise_is_refused() -> None:
    with pytest.raises(ValueError, match="page-cache or fsync, not 'perhaps'"):
        tidelog.Broker(durability="perhaps")
