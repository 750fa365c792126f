"""kafka-dump-log: what is in log, index and snapshot files, line by line."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser
from tidelog.cli.log_files import LogFile, StoredBatch, base_offset_of, offset_entries, time_entries
from tidelog.model.errors import ProtocolError
from tidelog.wire.batch import NO_SEQUENCE, SEQUENCE_MASK
from tidelog.wire.compression import Compression
from tidelog.wire.control import ControlType, read_control_type, read_end_transaction
from tidelog.wire.records import Record

if TYPE_CHECKING:
    from tidelog.log.producer_entry import ProducedBatch

BYTES_MAX: Final = 2**31 - 1
CODECS: Final = {codec.value: codec.name.lower() for codec in Compression}
DECODERS: Final = ("offsets", "transaction-log", "cluster-metadata", "remote-log-metadata", "share-group-state")


class Problems:
    """What does not fit together, shown after everything else."""

    def __init__(self) -> None:
        self.offsets: defaultdict[Path, list[tuple[int, int]]] = defaultdict(list)
        self.timestamps: defaultdict[Path, list[tuple[int, int]]] = defaultdict(list)
        self.out_of_order: defaultdict[Path, list[tuple[int, int]]] = defaultdict(list)
        self.not_found: defaultdict[Path, list[tuple[int, int]]] = defaultdict(list)
        self.gaps: defaultdict[Path, list[tuple[int, int]]] = defaultdict(list)

    def show(self) -> None:
        lines: list[str] = []
        for path, found in self.offsets.items():
            lines.append(f"Mismatches in :{path.resolve()}")
            lines += [f"  Index offset: {indexed}, log offset: {logged}" for indexed, logged in found]
        for path, found in self.timestamps.items():
            lines.append(f"Found timestamp mismatch in :{path.resolve()}")
            lines += [f"  Index timestamp: {indexed}, log timestamp: {logged}" for indexed, logged in found]
        for path, found in self.out_of_order.items():
            lines.append(f"Found out of order timestamp in :{path.resolve()}")
            lines += [f"  Index timestamp: {now}, Previously indexed timestamp: {before}" for now, before in found]
        for found in self.not_found.values():
            lines.append("The following indexed offsets are not found in the log.")
            lines += [f"Indexed offset: {indexed}, found log offset: {logged}" for indexed, logged in found]
        for path, found in self.gaps.items():
            lines.append(f"Non-consecutive offsets in {path.resolve()}")
            lines += [f"  {first} is followed by {second}" for first, second in found]
        for line in lines:
            print(line, file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    options = parser.read(arguments)
    parser.require(options, "files")
    for decoder in DECODERS:
        if getattr(options, f"{decoder.replace('-', '_')}_decoder"):
            raise BadInput(f"--{decoder}-decoder is not there yet; --print-data-log shows the bytes as text.")
    problems = Problems()
    for name in options.files.split(","):
        path = Path(name)
        print(f"Dumping {path}")
        if not path.exists():
            raise BadInput(f"{path}: there is no such file.")
        dump = DUMPS.get(path.suffix)
        if dump is None:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
        else:
            dump(path, options, problems)
    sys.stdout.flush()
    problems.show()
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-dump-log", "Shows what is in log and index files.")
    parser.option("--files", "FILE,FILE", "The files.")
    parser.flag("--print-data-log", "Show keys and values, too.")
    parser.flag("--deep-iteration", "Show records, not only batches.")
    parser.flag("--skip-record-metadata", "Leave offsets, times and sizes of records out.")
    parser.flag("--verify-index-only", "Check indexes against the log without showing entries.")
    parser.flag("--index-sanity-check", "Check indexes as a broker does at start-up.")
    parser.option("--max-bytes", "N", "Read no more than this of each log.", type=int, default=BYTES_MAX)
    parser.option("--max-message-size", "N", argparse.SUPPRESS, type=int)
    for decoder in DECODERS:
        parser.flag(f"--{decoder}-decoder", argparse.SUPPRESS)
    parser.option("--key-decoder-class", "CLASS", argparse.SUPPRESS, nargs="?")
    parser.option("--value-decoder-class", "CLASS", argparse.SUPPRESS, nargs="?")
    return parser


def _dump_log(path: Path, options: argparse.Namespace, problems: Problems) -> None:
    if path.suffix == ".log":
        print(f"Log starting offset: {base_offset_of(path)}")
    deep = options.deep_iteration or options.print_data_log
    log = LogFile(path, None if options.max_bytes == BYTES_MAX else options.max_bytes)
    last_offset: int | None = None
    for batch in log.batches():
        print(batch_line(batch))
        if not deep:
            continue
        try:
            records = batch.records()
        except ProtocolError as error:
            print(f"{path}: the batch at {batch.position} cannot be read: {error}", file=sys.stderr)
            continue
        for record in records:
            if last_offset is not None and record.offset != last_offset + 1:
                problems.gaps[path].append((last_offset, record.offset))
            last_offset = record.offset
            print(record_line(batch, record, options.print_data_log, options.skip_record_metadata))
    if log.trailing_bytes:
        print(f"Found {log.trailing_bytes} invalid bytes at the end of {path.name}")


def batch_line(batch: StoredBatch) -> str:
    """A batch in Kafka's words."""
    header = batch.header
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_java(header.is_transactional)} "
        f"isControl: {_java(header.is_control)} deleteHorizonMs: {horizon} position: {batch.position} "
        f"{_time_type(batch)}: {header.max_timestamp} size: {header.size_bytes} magic: {header.magic} "
        f"compresscodec: {_codec(header.compression)} crc: {header.crc} isvalid: {_java(batch.is_valid)}"
    )


def record_line(batch: StoredBatch, record: Record, contents: bool, without_metadata: bool) -> str:
    """A record in Kafka's words."""
    header = batch.header
    line, before = "", "| "
    if not without_metadata:
        sequence = NO_SEQUENCE
        if header.base_sequence != NO_SEQUENCE:
            sequence = (header.base_sequence + record.offset - header.base_offset) & SEQUENCE_MASK
        names = ",".join(name for name, _ in record.headers)
        line = (
            f"| offset: {record.offset} {_time_type(batch)}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{names}]"
        )
        before = " "
        if header.is_control:
            line += f" {_control(record)}"
    if contents and not header.is_control:
        if record.key is not None:
            line += f"{before}key: {record.key.decode(errors='replace')}"
        if record.value is not None:
            # Without metadata and key Kafka leaves the bar out, too.
            line += f" payload: {record.value.decode(errors='replace')}"
    return line


def _control(record: Record) -> str:
    kind = read_control_type(record)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        marker = read_end_transaction(record)
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {marker.coordinator_epoch}"
    return "controlType: UNKNOWN(-1)" if kind is None else f"controlType: {kind.name}({kind.value})"


def _dump_offset_index(path: Path, options: argparse.Namespace, problems: Problems) -> None:
    entries = offset_entries(path)
    if not entries:
        print(f"{path} is empty.")
        return
    if options.index_sanity_check:
        print(f"{path} passed sanity check.")
        return
    last_offsets = {batch.position: batch.header.last_offset for batch in LogFile(path.with_suffix(".log")).batches()}
    for offset, position in entries:
        found = last_offsets.get(position, -1)
        if found != offset:
            problems.offsets[path].append((offset, found))
        if not options.verify_index_only:
            print(f"offset: {offset} position: {position}")


def _dump_time_index(path: Path, options: argparse.Namespace, problems: Problems) -> None:
    if options.index_sanity_check:
        time_entries(path)
        print(f"{path} passed sanity check.")
        return
    headers = [batch.header for batch in LogFile(path.with_suffix(".log")).batches()]
    before = -1
    for timestamp, offset in time_entries(path):
        found = next((header for header in headers if header.last_offset >= offset), None)
        if found is None or found.last_offset != offset:
            problems.not_found[path].append((offset, -1 if found is None else found.last_offset))
        else:
            if found.max_timestamp != timestamp:
                problems.timestamps[path].append((timestamp, found.max_timestamp))
            if before >= timestamp:
                problems.out_of_order[path].append((timestamp, before))
        if not options.verify_index_only:
            print(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def _dump_transaction_index(path: Path, options: argparse.Namespace, problems: Problems) -> None:
    from tidelog.env.files import RealFiles
    from tidelog.log.transaction_index import TransactionIndex

    for aborted in TransactionIndex(RealFiles(), str(path)).all():
        print(
            f"version: 0 producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
            f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
        )


def _dump_snapshot(path: Path, options: argparse.Namespace, problems: Problems) -> None:
    from tidelog.log.errors import CorruptLog
    from tidelog.log.producer_snapshots import decode_snapshot

    try:
        producers = decode_snapshot(path.read_bytes(), str(path))
    except CorruptLog as error:
        print(error, file=sys.stderr)
        return
    for producer in producers:
        transaction = producer.transaction_first_offset
        first = f"OptionalLong[{transaction}]" if transaction >= 0 else "OptionalLong.empty"
        line = (
            f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: {first} "
        )
        if not producer.batches:
            print(f"{line}lastTimestamp: {producer.last_timestamp} ")
        for batch in producer.batches:
            print(f"{line}lastTimestamp: {batch.timestamp} {_produced(batch)}")


def _produced(batch: ProducedBatch) -> str:
    return (
        f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} lastOffset: {batch.last_offset} "
        f"offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
    )


def _time_type(batch: StoredBatch) -> str:
    return "LogAppendTime" if batch.header.is_log_append_time else "CreateTime"


def _codec(number: int) -> str:
    return CODECS.get(number, f"unknown({number})")


def _java(value: bool) -> str:
    return "true" if value else "false"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


Dump = Callable[[Path, argparse.Namespace, Problems], None]
DUMPS: Final[Mapping[str, Dump]] = {
    ".log": _dump_log,
    ".checkpoint": _dump_log,
    ".index": _dump_offset_index,
    ".timeindex": _dump_time_index,
    ".txnindex": _dump_transaction_index,
    ".snapshot": _dump_snapshot,
}
