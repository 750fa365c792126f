"""The options of the source, named and meant as in Spark's Kafka connector, read into one value.

`source.py` parses them once in the driver; the value travels to the executors. What is wrong is said with the option's
name before anything is asked of a broker. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.model.ids import Offset, TopicName, TopicPartition
from tidelog.spark.connecting import Protection, protection_of
from tidelog.spark.errors import InvalidOption
from tidelog.spark.positions import Positions, parse_numbers, parse_partitions, parse_positions
from tidelog.spark.typed_options import TypedOptions, parse_typed_options

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
# Small enough for Spark to be busy with one while the next comes; half as large costs a sixth more of Python's time.
FETCH_BYTES: Final = 4 * 1024 * 1024
REQUEST_TIMEOUT_MS: Final = 30_000

EARLIEST_NAME: Final = "earliest"
LATEST_NAME: Final = "latest"
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
NETWORK: Final = "network"
SEGMENTS: Final = "segments"

# Settings of a Kafka client that say what the source decides itself: Spark's connector refuses them, too.
REFUSED: Final = {
    "kafka.auto.offset.reset": "startingOffsets says where reading begins",
    "kafka.enable.auto.commit": "the checkpoint keeps what was read; kafka.group.id makes progress visible",
    "kafka.key.deserializer": "keys come as bytes",
    "kafka.value.deserializer": "values come as bytes; valueFormat makes columns of them",
    "kafka.interceptor.classes": "no Java runs here",
}

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPELLED: Final = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Topics:
    """Every partition of these topics."""

    names: tuple[TopicName, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Every partition of the topics whose whole name matches."""

    expression: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions."""

    partitions: tuple[TopicPartition, ...]


Selection: TypeAlias = Topics | Pattern | Assigned


@dataclass(frozen=True, slots=True)
class Ends:
    """The same end of the log for every partition: EARLIEST or LATEST."""

    end: int


@dataclass(frozen=True, slots=True)
class Named:
    """An offset for each partition; EARLIEST and LATEST stand for the ends."""

    offsets: Mapping[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class Times:
    """The first record at or after a time, of every partition or of each its own."""

    timestamp_ms: int | None
    timestamps_ms: Mapping[TopicPartition, int]
    # What a partition without a record that young means: an error, or its end.
    or_latest: bool

    def of(self, partition: TopicPartition) -> int | None:
        return self.timestamp_ms if self.timestamp_ms is not None else self.timestamps_ms.get(partition)


Bound: TypeAlias = Ends | Named | Times


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All that a read is told."""

    bootstrap_servers: str
    client_id: str
    selection: Selection
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    include_headers: bool
    read_committed: bool
    partitions_min: int | None
    records_per_partition_max: int | None
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_max_ms: int
    group_id: str | None
    fetch_bytes: int
    request_timeout_s: float
    via_segments: bool = False
    log_dirs: tuple[str, ...] = ()
    typed: TypedOptions | None = None
    protection: Protection = field(default=(), repr=False)


def parse_read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Read what a user wrote; names count in any case."""
    given = _Given(options)
    _check_client_settings(given)
    client_id = given.text("kafka.client.id") or "tidelog-spark"
    parsed = ReadOptions(
        bootstrap_servers=bootstrap_servers(options),
        client_id=client_id,
        selection=_selection(given),
        starting=_starting(given, streaming),
        ending=_ending(given, streaming),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        include_headers=given.boolean("includeHeaders", False),
        read_committed=_isolation(given),
        partitions_min=given.positive("minPartitions"),
        records_per_partition_max=given.positive("maxRecordsPerPartition"),
        offsets_per_trigger_max=given.positive("maxOffsetsPerTrigger"),
        offsets_per_trigger_min=given.positive("minOffsetsPerTrigger"),
        trigger_delay_max_ms=given.duration_ms("maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        group_id=given.text("kafka.group.id"),
        fetch_bytes=given.positive("fetchBytes") or FETCH_BYTES,
        request_timeout_s=given.duration_ms("kafka.request.timeout.ms", REQUEST_TIMEOUT_MS) / 1000,
        via_segments=_is_via_segments(given),
        typed=parse_typed_options(given.text),
        protection=protection_of(options),
        log_dirs=tuple(path.strip() for path in (given.text("logDirs") or "").split(",") if path.strip()),
    )
    if parsed.log_dirs and not parsed.via_segments:
        raise InvalidOption("Option logDirs is for via=segments; records come over the network.")
    least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger_max
    if least is not None and most is not None and least > most:
        raise InvalidOption(f"Option minOffsetsPerTrigger ({least}) is larger than maxOffsetsPerTrigger ({most}).")
    return parsed


def bootstrap_servers(options: Mapping[str, str]) -> str:
    """Where the cluster is; the one option that no read or write can do without."""
    given = _Given(options)
    servers = given.text(BOOTSTRAP_SERVERS) or given.text("bootstrap.servers") or given.text("bootstrapServers")
    if not servers:
        raise InvalidOption(f"Option {BOOTSTRAP_SERVERS} is missing: name one broker at least, as HOST:PORT.")
    return servers


def typed_options_of(options: Mapping[str, str]) -> TypedOptions | None:
    """How values are to be read, if not as bytes."""
    return parse_typed_options(_Given(options).text)


class _Given:
    """Options by their names in any case, with sentences for what cannot be read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        return value.strip() or None if value is not None else None

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise InvalidOption(f"Option {name} is true or false, not '{value}'.")
        return value.lower() == "true"

    def positive(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or int(value) < 1:
            raise InvalidOption(f"Option {name} is a number above 0, not '{value}'.")
        return int(value)

    def duration_ms(self, name: str, default: int) -> int:
        """Milliseconds, or with a unit as in "15m"."""
        value = self.text(name)
        if value is None:
            return default
        found = _SPELLED.fullmatch(value.lower())
        if found is None or (found[2] or "ms") not in _UNITS_MS:
            raise InvalidOption(f"Option {name} is a time such as 500ms, 30s or 15m, not '{value}'.")
        return int(found[1]) * _UNITS_MS[found[2] or "ms"]


def _selection(given: _Given) -> Selection:
    names = ("subscribe", "subscribePattern", "assign")
    used = [name for name in names if given.text(name) is not None]
    if len(used) != 1:
        message = "none is there" if not used else f"here are {' and '.join(used)}"
        raise InvalidOption(f"Exactly one of the options {', '.join(names)} says what to read; {message}.")
    text = given.text(used[0])
    assert text is not None
    match used[0]:
        case "subscribe":
            topics = tuple(TopicName(name.strip()) for name in text.split(",") if name.strip())
            if not topics:
                raise InvalidOption("Option subscribe names no topic.")
            return Topics(topics)
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as error:
                raise InvalidOption(f"Option subscribePattern is no regular expression: {error}.") from None
            return Pattern(text)
        case _:
            return Assigned(tuple(parse_partitions(text, "assign")))


def _starting(given: _Given, streaming: bool) -> Bound:
    strategy = (given.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise InvalidOption(f"Option startingOffsetsByTimestampStrategy is error or latest, not '{strategy}'.")
    timed = _timed(given, "starting", or_latest=strategy == "latest")
    if timed is not None:
        return timed
    bound = _offsets(given, "startingOffsets", LATEST if streaming else EARLIEST)
    if not streaming and _has(bound, LATEST):
        raise InvalidOption("Option startingOffsets cannot be latest in a batch: nothing would be read.")
    return bound


def _ending(given: _Given, streaming: bool) -> Bound:
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if given.text(name) is not None:
                raise InvalidOption(f"Option {name} is for batches: a stream does not end.")
        return Ends(LATEST)
    # A partition without a record that young is read to its end.
    timed = _timed(given, "ending", or_latest=True)
    if timed is not None:
        return timed
    bound = _offsets(given, "endingOffsets", LATEST)
    if _has(bound, EARLIEST):
        raise InvalidOption("Option endingOffsets cannot be earliest: nothing would be read.")
    return bound


def _timed(given: _Given, side: str, *, or_latest: bool) -> Times | None:
    one, each = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    text = given.text(one)
    if text is not None:
        if not text.isascii() or not text.isdigit():
            raise InvalidOption(f"Option {one} is a time in milliseconds since 1970, not '{text}'.")
        return Times(int(text), {}, or_latest)
    text = given.text(each)
    return None if text is None else Times(None, parse_numbers(text, each), or_latest)


def _offsets(given: _Given, name: str, default: int) -> Bound:
    text = given.text(name)
    if text is None:
        return Ends(default)
    if text.lower() in (EARLIEST_NAME, LATEST_NAME):
        return Ends(EARLIEST if text.lower() == EARLIEST_NAME else LATEST)
    offsets: Positions = parse_positions(text, name)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise InvalidOption(f"Option {name} has offset {offset} for {partition}; only -1 and -2 may be negative.")
    return Named(offsets)


def _has(bound: Bound, end: int) -> bool:
    match bound:
        case Ends(which):
            return which == end
        case Named(offsets):
            return end in offsets.values()
        case Times():
            return False


def _isolation(given: _Given) -> bool:
    name = "kafka.isolation.level"
    level = (given.text(name) or given.text("isolationLevel") or UNCOMMITTED).lower()
    if level not in (COMMITTED, UNCOMMITTED):
        raise InvalidOption(f"Option {name} is {COMMITTED} or {UNCOMMITTED}, not '{level}'.")
    return level == COMMITTED


def _check_client_settings(given: _Given) -> None:
    """Settings of a Kafka client (`kafka.…`) are accepted, and those that ours does not have are left alone."""
    for name, why in REFUSED.items():
        if given.text(name) is not None:
            raise InvalidOption(f"Option {name} cannot be set: {why}.")


def _is_via_segments(given: _Given) -> bool:
    via = (given.text("via") or NETWORK).lower()
    if via not in (NETWORK, SEGMENTS):
        raise InvalidOption(f"Option via is {NETWORK} or {SEGMENTS}, not '{via}'.")
    return via == SEGMENTS
