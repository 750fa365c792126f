"""The settings of a topic as the metadata log on disk says, for commands that work without a broker. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.broker.settings import LiveSettings
from tidelog.cli.log_files import LogFile
from tidelog.env.files import RealFiles
from tidelog.log.checkpoints import read_owner
from tidelog.log.errors import CorruptLog
from tidelog.metadata.codec import decode_record
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.publisher import Publisher
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.names import METADATA_TOPIC
from tidelog.model.topic_settings import TopicConfig

SNAPSHOT_SUFFIX: Final = ".checkpoint"


def stored_image(directory: Path) -> ClusterImage:
    """The cluster as of the end of the metadata log in this log directory; an empty one where there is none."""
    publisher = Publisher()
    folder = directory / f"{METADATA_TOPIC}-0"
    snapshots = sorted(folder.glob(f"*{SNAPSHOT_SUFFIX}"))
    known_up_to = -1
    for path in [*snapshots[-1:], *sorted(folder.glob("*.log"))]:
        for batch in LogFile(path).batches():
            header = batch.header
            if header.is_control or not batch.is_valid or (path.suffix == ".log" and header.last_offset <= known_up_to):
                continue
            try:
                records = [decode_record(record.value or b"") for record in batch.records()]
            except ProtocolError:
                return publisher.image  # What comes after it cannot be understood, either.
            publisher.apply(records, Offset(header.last_offset), LeaderEpoch(header.leader_epoch))
        if path.suffix == SNAPSHOT_SUFFIX:
            known_up_to = int(path.name.partition("-")[0]) - 1
    return publisher.image


def topic_config_of(directory: Path, topic: str, properties: Mapping[str, str]) -> TopicConfig:
    """The settings of a topic: its own, over the broker's as given, over the defaults."""
    image = stored_image(directory)
    try:
        owner = read_owner(RealFiles(), str(directory))
    except CorruptLog:
        owner = None
    node_id = NodeId(0) if owner is None else owner.node_id
    return LiveSettings(node_id, properties, lambda: image).topic(image, topic)
