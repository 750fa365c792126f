"""What a log costs beside reads and writes: recovery after kill -9, compaction, finding a moment in it.

Each starts servers of its own, since they are killed, restarted, or hold far more than the others need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.filling import batches_of, fill
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.process import cpu_time
from bench.scenarios import Note
from bench.servers import Contender, start
from bench.topics import ADMIN_SECONDS_MAX, LIST_OFFSETS_VERSION
from harness.raw_client import RawClient, create_topic
from harness.server import HOST
from tidelog.env.files import RealFiles
from tidelog.log.checkpoints import CLEANER_OFFSET_FILE, read_offsets
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

MEBIBYTE: Final = 1024 * 1024
TOPIC: Final = TopicName("life")
PARTITION: Final = TopicPartition(TOPIC, PartitionIndex(0))
# One segment as large as the format allows: nothing of it is synced before the server is killed.
ONE_SEGMENT: Final = str(2**31 - 1)
# Batches that are repeated: a tenth of the keys of ten repetitions are distinct.
REPETITIONS: Final = 10
DONE_SECONDS_MAX: Final = 600.0
POLL_SECONDS: Final = 0.02
TOPIC_RESOURCE: Final = 2
SET: Final = 0
NEVER_MS: Final = str(2**62)


@contextmanager
def _server(like: Contender, name: str, settings: Mapping[str, str] | None = None) -> Iterator[Contender]:
    folder = like.process.folder.parent / f"{like.name}-{name}"
    server = start(like.name, folder, settings)
    try:
        yield server
    finally:
        server.stop()


def _create(server: Contender, **configs: str) -> None:
    with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
        create_topic(client, TOPIC, 1, **configs)
    _wait(lambda: _offset_at(server, -1) == 0)


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DONE_SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {DONE_SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)


def _offset_at(server: Contender, timestamp: int) -> int | None:
    """Where a moment is in the topic (-1: its end); None while the server does not serve it."""
    try:
        with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
            return _ask_offset(client, timestamp)
    except OSError:
        return None


def _ask_offset(client: RawClient, timestamp: int) -> int | None:
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, timestamp)])])
    answer = client.ask(request, ListOffsetsResponse, LIST_OFFSETS_VERSION).topics[0].partitions[0]
    return None if answer.error_code else answer.offset


class Recovery:
    name = "recovery"
    title = "a log of one unsynced segment after kill -9: from the start of the process to the first answer about it"
    metrics: Sequence[Metric] = (
        Metric("recovery.seconds", "start with an unclean log", "s", Better.LOWER, 1.0),
        Metric("recovery.rate", "log checked per second", "MiB/s", Better.HIGHER),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        with _server(server, self.name) as mine:
            _create(mine, segment_bytes=ONE_SEGMENT)
            note(f"write {plan.recovery_mebibytes} MiB")
            fill(mine, TOPIC, batches_of(4, with_keys=False), plan.recovery_mebibytes * MEBIBYTE)
            end = _offset_at(mine, -1)
            mine.process.kill()
            note("start again")
            began = time.monotonic()
            mine.process.start()
            _wait(lambda: _offset_at(mine, -1) == end)
            seconds = time.monotonic() - began
        return {"recovery.seconds": seconds, "recovery.rate": plan.recovery_mebibytes / seconds}


class CompactionRate:
    name = "compaction"
    title = "compaction of 100-byte records of which a tenth have distinct keys, one cleaner thread"
    metrics: Sequence[Metric] = (
        Metric("compaction.rate", "records compacted", "/s", Better.HIGHER, 1.0),
        Metric("compaction.cpu", "broker CPU per million records", "s", Better.LOWER),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
        with _server(server, self.name, settings) as mine:
            # As a user would hold it back: the clock begins when it is let go.
            _create(
                mine,
                cleanup_policy="compact",
                segment_bytes=str(64 * MEBIBYTE),
                min_cleanable_dirty_ratio="0.01",
                min_compaction_lag_ms=NEVER_MS,
            )
            size = plan.compaction_mebibytes * MEBIBYTE
            count = max(size // REPETITIONS // 800_000, 1)
            note(f"write {plan.compaction_mebibytes} MiB")
            fill(mine, TOPIC, batches_of(count, with_keys=True), size)
            folder = mine.process.folder / "data"
            sealed = max(int(path.stem) for path in (folder / str(PARTITION)).glob("*.log"))
            note("compact")
            before = cpu_time(mine.pid)
            began = time.monotonic()
            _alter(mine, "min.compaction.lag.ms", "0")
            _wait(lambda: _compacted_up_to(folder) >= sealed)
            seconds = time.monotonic() - began
            cpu = cpu_time(mine.pid).since(before).total
        return {"compaction.rate": sealed / seconds, "compaction.cpu": cpu / sealed * 1e6}


def _compacted_up_to(folder: Path) -> int:
    try:
        return read_offsets(RealFiles(), str(folder), CLEANER_OFFSET_FILE).get(PARTITION, 0)
    except OSError:
        return 0


def _alter(server: Contender, name: str, value: str) -> None:
    resource = AlterConfigsResource(TOPIC_RESOURCE, TOPIC, [AlterableConfig(name, SET, value)])
    with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
        answer = client.ask(IncrementalAlterConfigsRequest([resource]), IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


LOOKUP_MEBIBYTES: Final = (512, 1024, 10240)
LOOKUPS: Final = 1_000
DAY_MS: Final = 24 * 60 * 60 * 1000
LOOKUP_RECORDS_IN_BATCH: Final = 600
BY_SIZE: Final = Curve(
    "lookup.size",
    "finding the first record not before a moment, anywhere in the log",
    "µs of broker CPU",
    "MiB",
    LOOKUP_MEBIBYTES,
    1.5,
)


class Lookup:
    name = "lookup"
    title = "ListOffsets by timestamp in logs of growing size"
    metrics: Sequence[Metric] = ()
    curves: Sequence[Curve] = (BY_SIZE,)

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        figures = {}
        with _server(server, self.name) as mine:
            _create(mine, segment_bytes=str(64 * MEBIBYTE))
            batches = batches_of(4, with_keys=False, records=LOOKUP_RECORDS_IN_BATCH)
            first_ms = last_ms = int(time.time() * 1000) - DAY_MS
            written = 0
            for size in LOOKUP_MEBIBYTES:
                if size > plan.lookup_mebibytes_max:
                    break
                note(f"{size} MiB")
                last_ms += fill(mine, TOPIC, batches, (size - written) * MEBIBYTE, first_ms=last_ms)
                written = size
                figures[BY_SIZE.point(size)] = _lookup_cpu_us(mine, first_ms, last_ms)
        return figures


def _lookup_cpu_us(server: Contender, first_ms: int, last_ms: int) -> float:
    with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
        for turn in range(2):  # The first one warms up.
            before = cpu_time(server.pid)
            for number in range(LOOKUPS):
                _ask_offset(client, first_ms + (last_ms - first_ms) * (number * 7919 % LOOKUPS) // LOOKUPS)
            if turn:
                return cpu_time(server.pid).since(before).total / LOOKUPS * 1e6
    raise AssertionError("there are two turns")


RECOVERY: Final = Recovery()
COMPACTION: Final = CompactionRate()
LOOKUP: Final = Lookup()
