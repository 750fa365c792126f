"""The options of the sink, and which columns of a DataFrame become what of a record: as in Spark's Kafka connector.

`source.py` parses them in the driver, before a task runs. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import BinaryType, IntegerType, NullType, StringType, StructType

from tidelog.client.core.options import ProducerOptions, is_setting
from tidelog.spark.connecting import KAFKA_PREFIX, Protection, protection_of
from tidelog.spark.errors import InvalidOption
from tidelog.spark.options import BOOTSTRAP_SERVERS, bootstrap_servers
from tidelog.spark.schema import HEADERS_TYPE

TEXT_OR_BYTES: Final = (StringType, BinaryType, NullType)
AUTO: Final = "auto"
GUARANTEES: Final = {"auto": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All that a write is told."""

    bootstrap_servers: str
    # Where rows go that name no topic of their own; rows that do are overruled by it.
    topic: str | None
    # Settings of the producer, by Kafka's names, but for those of security.
    producer: Mapping[str, str]
    # None: if the cluster can.
    exactly_once: bool | None
    sink_id: str | None
    protection: Protection = field(default=(), repr=False)


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Read what a user wrote; names count in any case."""
    given = {name.lower(): value for name, value in options.items()}
    guarantee = given.get("exactlyonce", AUTO).strip().lower()
    if guarantee not in GUARANTEES:
        raise InvalidOption(f"Option exactlyOnce is true, false or auto, not '{guarantee}'.")
    producer = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in given.items()
        if name.startswith(KAFKA_PREFIX) and name != BOOTSTRAP_SERVERS
    }
    for name in ("key.serializer", "value.serializer", "transactional.id", "enable.idempotence"):
        if name in producer:
            raise InvalidOption(f"Option {KAFKA_PREFIX}{name} is the sink's own business.")
    protection = protection_of(options)
    protecting = dict(protection)
    # As in Spark's connector, what a producer does not know is left alone: Java's has settings that ours need not have.
    known = {
        name: each for name, each in producer.items() if name not in protecting and is_setting(ProducerOptions, name)
    }
    return WriteOptions(
        bootstrap_servers=bootstrap_servers(options),
        topic=given.get("topic", "").strip() or None,
        producer=known,
        exactly_once=GUARANTEES[guarantee],
        sink_id=given.get("sinkid", "").strip() or None,
        protection=protection,
    )


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """InvalidOption unless the rows can become records."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise InvalidOption(f"A record needs a column 'value'; there are only {', '.join(types) or 'none'}.")
    for name in ("key", "value"):
        if name in types and not isinstance(types[name], TEXT_OR_BYTES):
            raise InvalidOption(f"Column '{name}' is {types[name].simpleString()}; it has to be string or binary.")
    if "topic" in types and not isinstance(types["topic"], StringType):
        raise InvalidOption(f"Column 'topic' is {types['topic'].simpleString()}; it has to be string.")
    if "topic" not in types and options.topic is None:
        raise InvalidOption("Where to write? Set option topic, or give the rows a column 'topic'.")
    if "partition" in types and not isinstance(types["partition"], IntegerType):
        raise InvalidOption(f"Column 'partition' is {types['partition'].simpleString()}; it has to be int.")
    if "headers" in types and types["headers"].simpleString() != HEADERS_TYPE.simpleString():
        found = types["headers"].simpleString()
        raise InvalidOption(f"Column 'headers' is {found}; it has to be {HEADERS_TYPE.simpleString()}.")
