"""`tidelog log restore`: makes partitions of archived segments, then has the broker take them as a new topic.

The folders are put beside those of the broker under names that it does not look at, until the topic is created: it
finds them then and takes them as they are.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tidelog.cli.failures import BadInput
from tidelog.cli.options import connect
from tidelog.cli.output import Json
from tidelog.env.clock import RealClock
from tidelog.env.files import RealFiles
from tidelog.log.archive import RESTORED_SUFFIX, Restored, archived_segments, restore
from tidelog.log.checkpoints import read_owner
from tidelog.log.directory import partition_of
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.names import check_topic_name

# What was restored stays until the topic is deleted.
SETTINGS: Final = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def restore_topic(archive: Path, topic: str, data: Path, bootstrap: str) -> list[Json]:
    """Restore every partition in the folder of an archived topic; what came back."""
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import NewTopic
    from tidelog.client.errors import Rejected

    name = check_topic_name(topic)
    files = RealFiles()
    owner = read_owner(files, str(data))
    if owner is None:
        raise BadInput(f"{data} is no log directory of a broker: it has no meta.properties.")
    sources = _sources(archive)
    if not sources:
        return []
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        if name in {found.name for found in admin.list_topics()}:
            raise BadInput(f"Topic '{name}' exists already. Name another one with --as.")
        made: list[Path] = []
        try:
            restored = _make_folders(data, name, sources, made)
            # Here and nowhere else: only this broker has the folders.
            assignments = tuple((owner.node_id,) for _ in restored)
            new = NewTopic(name, configs=SETTINGS, assignments=assignments)
            answer = admin.create_topics([new])[name]
            if isinstance(answer, Rejected):
                raise answer
        finally:
            for folder in made:
                shutil.rmtree(folder, ignore_errors=True)  # Those that the broker took have another name by now.
    return [
        {
            "partition": f"{name}-{index}",
            "start_offset": found.start_offset,
            "end_offset": found.end_offset,
            "segments": found.segments,
            "size_bytes": found.bytes,
            "missing": [list(gap) for gap in found.missing],
        }
        for index, found in sorted(restored.items())
        if index in sources
    ]


def _sources(archive: Path) -> dict[int, Path]:
    """The folders of partitions by number: this folder is a partition's, or it holds some."""
    folders = [archive, *(path for path in sorted(archive.iterdir()) if path.is_dir())]
    found = {}
    for folder in folders:
        partition = partition_of(folder.resolve().name)
        if partition is not None and any(folder.glob("*.log")):
            found[int(partition.partition)] = folder
    return found


def _make_folders(data: Path, name: TopicName, sources: dict[int, Path], made: list[Path]) -> dict[int, Restored]:
    files = RealFiles()
    restored = {}
    for index in range(max(sources) + 1):
        partition = TopicPartition(name, PartitionIndex(index))
        folder = data.resolve() / f"{partition}{RESTORED_SUFFIX}"
        if folder.exists():
            shutil.rmtree(folder)  # What a restoration left that was interrupted.
        made.append(folder)
        archived = archived_segments(files, str(sources[index])) if index in sources else []
        try:
            restored[index] = restore(files, RealClock(), archived, partition, str(folder))
        except CorruptLog as error:
            raise BadInput(f"{error}. Nothing was restored; `tidelog log verify` says more.") from None
    return restored
