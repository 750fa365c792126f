"""How kafka-console-consumer prints a record: Kafka's formatters and deserializers, by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.cli.failures import BadInput

if TYPE_CHECKING:
    from tidelog.client.core.record import ConsumerRecord

Deserializer = Callable[[bytes], bytes]


def _number(format_: str) -> Deserializer:
    layout = Struct(format_)

    def read(content: bytes) -> bytes:
        try:
            return str(layout.unpack(content)[0]).encode()
        except StructError:
            raise BadInput(f"Size of data received is not {layout.size}") from None

    return read


def _same(content: bytes) -> bytes:
    return content


def _text(content: bytes) -> bytes:
    return content.decode("utf-8", "replace").encode()


def _uuid(content: bytes) -> bytes:
    try:
        return str(UUID(content.decode())).encode()
    except ValueError:
        raise BadInput("Error parsing data into UUID") from None


# By the last part of the class name.
DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    "StringDeserializer": _text,
    "ByteArrayDeserializer": _same,
    "BytesDeserializer": _same,
    "ShortDeserializer": _number(">h"),
    "IntegerDeserializer": _number(">i"),
    "LongDeserializer": _number(">q"),
    "FloatDeserializer": _number(">f"),
    "DoubleDeserializer": _number(">d"),
    "BooleanDeserializer": lambda content: b"true" if content == b"\x01" else b"false",
    "UUIDDeserializer": _uuid,
}


def deserializer(name: str | None) -> Deserializer:
    """The deserializer of a class name; bytes as they are without one."""
    if not name:
        return _same
    found = DESERIALIZERS.get(name.rpartition(".")[2])
    if found is None:
        known = ", ".join(DESERIALIZERS)
        raise BadInput(f"There is no deserializer {name} here; known are {known}.")
    return found


@dataclass(frozen=True, slots=True)
class DefaultFormatter:
    """What each line holds; the names and defaults are those of Kafka's DefaultMessageFormatter."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    read_key: Deserializer = field(default=_same)
    read_value: Deserializer = field(default=_same)
    read_header: Deserializer = field(default=_same)

    def __call__(self, record: ConsumerRecord) -> bytes:
        fields: list[bytes] = []
        if self.print_timestamp:
            kind = "LogAppendTime" if record.is_log_append_time else "CreateTime"
            fields.append(f"{kind}:{record.timestamp_ms}".encode())
        if self.print_partition:
            fields.append(b"Partition:%d" % record.partition)
        if self.print_offset:
            fields.append(b"Offset:%d" % record.offset)
        if self.print_delivery:
            fields.append(b"Delivery:NOT_PRESENT")
        if self.print_epoch:
            # Kafka's console consumer does not hand the epoch on to its formatter.
            fields.append(b"Epoch:NOT_PRESENT")
        if self.print_headers:
            pairs = (
                name.encode(errors="surrogateescape") + b":" + self._read(self.read_header, value)
                for name, value in record.headers
            )
            fields.append(self.headers_separator.join(pairs) or b"NO_HEADERS")
        if self.print_key:
            fields.append(self._read(self.read_key, record.key))
        if self.print_value:
            fields.append(self._read(self.read_value, record.value))
        return self.key_separator.join(fields) + self.line_separator

    def _read(self, read: Deserializer, content: bytes | None) -> bytes:
        return self.null_literal if content is None else read(content)


def default_formatter(properties: Mapping[str, str]) -> DefaultFormatter:
    """A formatter from Kafka's property names."""

    def yes(name: str, default: bool = False) -> bool:
        return properties[name].strip().lower() == "true" if name in properties else default

    def text(name: str, default: str) -> bytes:
        return properties.get(name, default).encode()

    return DefaultFormatter(
        print_timestamp=yes("print.timestamp"),
        print_partition=yes("print.partition"),
        print_offset=yes("print.offset"),
        print_delivery=yes("print.delivery"),
        print_epoch=yes("print.epoch"),
        print_headers=yes("print.headers"),
        print_key=yes("print.key"),
        print_value=yes("print.value", default=True),
        key_separator=text("key.separator", "\t"),
        line_separator=text("line.separator", "\n"),
        headers_separator=text("headers.separator", ","),
        null_literal=text("null.literal", "null"),
        read_key=deserializer(properties.get("key.deserializer")),
        read_value=deserializer(properties.get("value.deserializer")),
        read_header=deserializer(properties.get("headers.deserializer")),
    )


def formatter(class_name: str | None, properties: Mapping[str, str]) -> Callable[[ConsumerRecord], bytes]:
    """The formatter of a class name."""
    name = (class_name or "DefaultMessageFormatter").rpartition(".")[2]
    if name == "DefaultMessageFormatter":
        return default_formatter(properties)
    if name == "NoOpMessageFormatter":
        return lambda _: b""
    raise BadInput(f"There is no formatter {class_name} here; known are DefaultMessageFormatter, NoOpMessageFormatter.")
