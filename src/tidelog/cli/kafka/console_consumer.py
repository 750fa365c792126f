"""kafka-console-consumer: records of topics on standard output, until Ctrl-C, a number of them, or a time without any.

Without a group it reads every partition of its topics itself; with one, those that the group gives it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of, properties_of, warn
from tidelog.cli.kafka.record_formats import formatter
from tidelog.cli.kafka.topic_filter import TopicFilter
from tidelog.model.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.core.record import ConsumerRecord

POLL_S: Final = 0.5
# How often to look whether topics appeared that the command is to read.
DISCOVER_S: Final = 1.0
MILLISECONDS: Final = 1000
# How often a member of a group looks for topics and partitions to share.
REFRESH_MS: Final = 5_000
# The consumer's properties that mean something here; a file may have more, such as Java's deserializers.
TAKEN: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.id",
        "client.rack",
        "enable.auto.commit",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "request.timeout.ms",
        "session.timeout.ms",
    }
)
ISOLATION: Final = ("read_committed", "read_uncommitted")


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    options = parser.read(arguments)
    settings = _checked(parser, options)
    show = formatter(options.formatter, _formatter_properties(parser, options))
    read_committed = settings.get("isolation.level", options.isolation_level) == "read_committed"
    with cluster_of(options, settings) as cluster:
        reading = Reading(cluster, options, settings, read_committed)
        try:
            reading.run(show, options.max_messages, options.timeout_ms, skip_errors=options.skip_message_on_error)
        except KeyboardInterrupt:
            pass
        finally:
            reading.close()
            sys.stdout.buffer.flush()
            print(f"Processed a total of {reading.count} messages", file=sys.stderr)
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-console-consumer", "Reads records of topics and writes them to standard output.")
    parser.bootstrap()
    parser.option("--topic", "TOPIC", "The topic to read.")
    parser.option("--include", "REGEX", "A regular expression of the topics to read.")
    parser.old("--whitelist", "--include")
    parser.option("--partition", "N", "The partition to read, from its end unless --offset says otherwise.", type=int)
    parser.option("--offset", "OFFSET", "Where to begin: a number, earliest or latest.")
    parser.flag("--from-beginning", "Begin with the oldest record instead of the next one to come.")
    parser.option("--max-messages", "N", "End after this many records.", type=int)
    parser.option("--timeout-ms", "MS", "End when no record came for this long.", type=int)
    parser.option("--group", "ID", "The consumer group.")
    parser.option("--isolation-level", "LEVEL", "read_committed or read_uncommitted.", default="read_uncommitted")
    parser.option("--formatter", "CLASS", "DefaultMessageFormatter or NoOpMessageFormatter.")
    parser.option("--formatter-property", "KEY=VALUE", "print.key=true, print.timestamp=true, …", action="append")
    parser.option("--formatter-config", "FILE", "A file of formatter properties.")
    parser.option("--property", "KEY=VALUE", argparse.SUPPRESS, action="append")
    parser.option("--key-deserializer", "CLASS", "How keys are read.")
    parser.option("--value-deserializer", "CLASS", "How values are read.")
    parser.option("--command-property", "KEY=VALUE", "A property of the consumer.", action="append")
    parser.option("--consumer-property", "KEY=VALUE", argparse.SUPPRESS, action="append")
    parser.option("--consumer.config", "FILE", argparse.SUPPRESS)
    parser.flag("--skip-message-on-error", "Go on with the next record when one cannot be shown.")
    parser.flag("--enable-systest-events", argparse.SUPPRESS)
    return parser


def _checked(parser: KafkaParser, options: argparse.Namespace) -> dict[str, str]:
    """The consumer's properties, after a look for what contradicts itself."""
    parser.require(options, "bootstrap-server")
    if (options.topic is None) == (options.include is None):
        parser.error("Exactly one of the following arguments is required: [topic], [include]")
    if options.partition is not None and options.topic is None:
        parser.error("The topic is required when partition is specified.")
    if options.offset is not None:
        if options.partition is None:
            parser.error("The partition is required when offset is specified.")
        if options.from_beginning:
            parser.error("Options from-beginning and offset cannot be specified together.")
        if options.offset.lower() not in ("earliest", "latest") and not options.offset.isdigit():
            parser.error(
                f"The provided offset value '{options.offset}' is incorrect. Valid values are 'earliest', 'latest', "
                "or a non-negative long."
            )
    if options.isolation_level not in ISOLATION:
        raise BadInput(f"Invalid value {options.isolation_level} for configuration isolation.level")
    if options.consumer_property:
        warn(
            "--consumer-property is deprecated and will be removed in a future version. Use --command-property instead."
        )
    file = options.command_config or getattr(options, "consumer.config")
    settings = properties_of(options.command_property or options.consumer_property, file)
    group = options.group or settings.get("group.id")
    if options.group and settings.get("group.id", options.group) != options.group:
        raise BadInput(
            "The group ids provided in different places (directly using '--group', via '--command-property', or via "
            f"'--command-config') do not match. Detected group ids: '{options.group}', '{settings['group.id']}'"
        )
    if group and options.partition is not None:
        raise BadInput("A group shares the partitions among its members: leave out --partition or the group.")
    reset = settings.get("auto.offset.reset", "latest" if not options.from_beginning else "earliest")
    if options.from_beginning and reset != "earliest":
        raise BadInput(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    return settings | {"auto.offset.reset": reset} | ({"group.id": group} if group else {})


def _formatter_properties(parser: KafkaParser, options: argparse.Namespace) -> dict[str, str]:
    if options.property:
        if options.formatter_property:
            parser.error("Options --property and --formatter-property cannot be specified together.")
        warn("--property is deprecated and will be removed in a future version. Use --formatter-property instead.")
    properties = properties_of(options.formatter_property or options.property, options.formatter_config)
    if options.key_deserializer:
        properties["key.deserializer"] = options.key_deserializer
    if options.value_deserializer:
        properties["value.deserializer"] = options.value_deserializer
    return properties


class Reading:
    """The topics that the command reads, and how far it has come."""

    def __init__(
        self, cluster: Cluster, options: argparse.Namespace, settings: Mapping[str, str], read_committed: bool
    ) -> None:
        from tidelog.client.blocking.consumer import Consumer
        from tidelog.client.core.java_security import security_settings

        self.count = 0
        self._cluster = cluster
        self._topic: TopicName | None = None if options.topic is None else TopicName(options.topic)
        self._filter = None if options.include is None else TopicFilter(options.include)
        self._partition: int | None = options.partition
        self._offset: str = options.offset or settings["auto.offset.reset"]
        taken = {name: value for name, value in settings.items() if name in TAKEN} | security_settings(settings)
        self._consumer = Consumer(
            {
                "client.id": "console-consumer",
                "metadata.max.age.ms": REFRESH_MS,
                **taken,
                "bootstrap.servers": options.bootstrap_server,
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            }
        )
        self._is_member = "group.id" in settings
        if self._is_member:
            if self._topic is not None:
                self._consumer.subscribe([self._topic])
            else:
                assert self._filter is not None
                self._consumer.subscribe(pattern=self._filter.pattern)
        self._discover_at = 0.0
        self._first_look = True

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def run(
        self,
        show: Callable[[ConsumerRecord], bytes],
        count_max: int | None,
        timeout_ms: int | None,
        *,
        skip_errors: bool,
    ) -> None:
        """Read until there are enough records, or none came for long enough."""
        output = sys.stdout.buffer
        last_record_at = time.monotonic()
        while count_max is None or count_max < 0 or self.count < count_max:
            self._discover()
            left = None if count_max is None or count_max < 0 else count_max - self.count
            records = self._poll(timeout_ms, last_record_at, left)
            for record in records:
                self.count += 1
                try:
                    output.write(show(record))
                except BadInput:
                    if not skip_errors:
                        raise
                if self.count == count_max:
                    break
            output.flush()
            if records:
                last_record_at = time.monotonic()
            elif timeout_ms is not None and (time.monotonic() - last_record_at) * MILLISECONDS >= timeout_ms:
                return

    def _poll(self, timeout_ms: int | None, last_record_at: float, records_max: int | None) -> list[ConsumerRecord]:
        wait_s = POLL_S
        if timeout_ms is not None:
            wait_s = min(wait_s, max(0.0, last_record_at + timeout_ms / MILLISECONDS - time.monotonic()))
        return self._consumer.poll(wait_s, records_max)

    def _discover(self) -> None:
        """Begin with partitions that have appeared since the last look. A group finds them by itself."""
        if self._is_member or time.monotonic() < self._discover_at:
            return
        self._discover_at = time.monotonic() + DISCOVER_S
        known = self._consumer.assignment()
        new = [partition for partition in self._wanted() if partition not in known]
        if new:
            self._consumer.assign([*known, *new])
            self._begin(new)
        self._first_look = False

    def _wanted(self) -> list[TopicPartition]:
        from tidelog.client.admin import Admin

        deadline = self._cluster.deadline()
        if self._topic is not None:
            view = self._cluster.refresh([self._topic], deadline, create=True)
            topics = [view.topics[self._topic]]
        else:
            assert self._filter is not None
            topics = [topic for topic in Admin(self._cluster).list_topics() if self._filter.matches(topic.name)]
        return [
            TopicPartition(topic.name, partition.index)
            for topic in topics
            for partition in topic.partitions
            if self._partition is None or partition.index == self._partition
        ]

    def _begin(self, partitions: list[TopicPartition]) -> None:
        if self._offset.isdigit():
            for partition in partitions:
                self._consumer.seek(partition, int(self._offset))
        elif self._offset.lower() == "earliest" or not self._first_look:
            # Partitions that appear while we read are new: all that is in them came after the command began.
            self._consumer.seek_to_beginning(*partitions)
        else:
            self._consumer.seek_to_end(*partitions)
