"""Small text files that say where a log directory stands: offsets by partition, the directory's owner, a partition's
topic id.

Each is replaced in one step (temporary file, sync, rename, sync of the directory), so that a crash leaves the old or
the new one. Formats are Apache Kafka's. `log/directories.py` decides when they are written.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.env.files import Files, read_all
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicId, TopicName, TopicPartition

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
META_PROPERTIES_FILE: Final = "meta.properties"
PARTITION_METADATA_FILE: Final = "partition.metadata"
# In the folder of a partition that was restored from an archive. Apache Kafka knows nothing of it.
READ_ONLY_FILE: Final = "tidelog.read-only"
TEMPORARY_SUFFIX: Final = ".tmp"

_CHECKPOINT_VERSION: Final = 0


def replace_file(files: Files, directory: str, name: str, content: bytes, *, sync: bool = True) -> None:
    """Put `content` in the place of a file in one step. Without `sync` a crash may leave any of it."""
    path = f"{directory}/{name}"
    temporary = path + TEMPORARY_SUFFIX
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write([content], 0)
        if sync:
            file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    if sync:
        files.sync_directory(directory)


def encode_lines(lines: list[str]) -> bytes:
    """Apache Kafka's checkpoint: a version, a count, the lines."""
    return "".join(f"{line}\n" for line in [str(_CHECKPOINT_VERSION), str(len(lines)), *lines]).encode()


def decode_lines(content: bytes, path: str) -> list[str]:
    """The lines of a checkpoint; raises CorruptLog when it is torn or of an unknown version."""
    if not content:
        return []  # Apache Kafka makes the file before it has anything to say.
    try:
        version, count, *lines = content.decode().split("\n")
        if int(version) != _CHECKPOINT_VERSION:
            raise CorruptLog(f"{path} has the unknown version {version}")
        lines = [line for line in lines if line]
        if int(count) != len(lines):
            raise CorruptLog(f"{path} has {len(lines)} lines where {count} are announced")
    except ValueError as error:
        raise CorruptLog(f"{path} is no checkpoint: {error}") from None
    return lines


def write_offsets(files: Files, directory: str, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Write one offset for each partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    replace_file(files, directory, name, encode_lines(lines))


def read_offsets(files: Files, directory: str, name: str) -> dict[TopicPartition, Offset]:
    """Read what `write_offsets` wrote; nothing when there is no such file yet."""
    path = f"{directory}/{name}"
    try:
        content = read_all(files, path)
    except FileNotFoundError:
        return {}
    offsets = {}
    for line in decode_lines(content, path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(TopicName(topic), PartitionIndex(int(partition)))] = Offset(int(offset))
        except ValueError:
            raise CorruptLog(f"{path} has the line {line!r}") from None
    return offsets


def encode_uuid(uuid: UUID) -> str:
    """A UUID as Apache Kafka prints it: 22 characters of base64."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> UUID:
    """Read what `encode_uuid` made; raises ValueError."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no id: {error}") from None


def _properties(content: bytes) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in content.decode().splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


@dataclass(frozen=True, slots=True)
class DirectoryOwner:
    """Whose directory this is: `meta.properties`, version 1."""

    cluster_id: str
    node_id: NodeId
    directory_id: UUID


def write_owner(files: Files, directory: str, owner: DirectoryOwner) -> None:
    content = (
        f"#\nversion=1\ncluster.id={owner.cluster_id}\nnode.id={owner.node_id}\n"
        f"directory.id={encode_uuid(owner.directory_id)}\n"
    )
    replace_file(files, directory, META_PROPERTIES_FILE, content.encode())


def read_owner(files: Files, directory: str) -> DirectoryOwner | None:
    """The owner of a directory, None when it is new; raises CorruptLog when the file is not understood."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        properties = _properties(read_all(files, path))
    except FileNotFoundError:
        return None
    try:
        if properties["version"] != "1":
            raise CorruptLog(f"{path} has the unknown version {properties['version']}")
        return DirectoryOwner(
            properties["cluster.id"], NodeId(int(properties["node.id"])), decode_uuid(properties["directory.id"])
        )
    except (KeyError, ValueError) as error:
        raise CorruptLog(f"{path} is incomplete: {error}") from None


def write_topic_id(files: Files, directory: str, topic_id: TopicId, *, sync: bool = True) -> None:
    """Note in a partition's folder which topic it belongs to."""
    content = f"version: 0\ntopic_id: {encode_uuid(topic_id)}\n"
    replace_file(files, directory, PARTITION_METADATA_FILE, content.encode(), sync=sync)


def read_topic_id(files: Files, directory: str) -> TopicId | None:
    """The topic a partition's folder belongs to; None when the file is missing or a crash left it torn."""
    try:
        content = read_all(files, f"{directory}/{PARTITION_METADATA_FILE}").decode()
        fields = dict(line.split(": ", 1) for line in content.splitlines())
        return decode_uuid(fields["topic_id"]) if fields["version"] == "0" else None
    except (FileNotFoundError, KeyError, ValueError):
        return None


def write_read_only(files: Files, directory: str, start: Offset) -> None:
    """Note in a partition's folder that nothing is to be added, and where its readers may start."""
    replace_file(files, directory, READ_ONLY_FILE, f"version: 0\nlog_start_offset: {start}\n".encode())


def read_only_start(files: Files, directory: str) -> Offset | None:
    """Where a read-only partition starts; None when it is an ordinary one. Raises CorruptLog."""
    path = f"{directory}/{READ_ONLY_FILE}"
    try:
        content = read_all(files, path).decode()
        fields = dict(line.split(": ", 1) for line in content.splitlines())
        return Offset(int(fields["log_start_offset"]))
    except FileNotFoundError:
        return None
    except (KeyError, ValueError) as error:
        raise CorruptLog(f"{path} is not understood: {error}") from None
