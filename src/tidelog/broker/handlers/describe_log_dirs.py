"""DescribeLogDirs (key 35), v1-v4. v3: top-level error. v4: total and usable bytes (KIP-827)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class DescribeLogDirsHandler:
    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories

    def __call__(self, call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
        return DescribeLogDirsResponse(
            results=[_describe(directory, wanted) for directory in self._directories.directories]
        )


def _describe(directory: LogDirectory, wanted: dict[str, set[int]] | None) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, index), log in directory.logs.items():
        if wanted is not None and index not in wanted.get(name, ()):
            continue
        topic = topics.setdefault(name, DescribeLogDirsTopic(name, []))
        topic.partitions.append(DescribeLogDirsPartition(index, log.size_bytes, 0))
    files = directory.files
    return DescribeLogDirsResult(
        ErrorCode.NONE,
        directory.path,
        list(topics.values()),
        files.total_bytes(directory.path),
        files.free_bytes(directory.path),
    )
