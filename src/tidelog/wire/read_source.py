"""Writes the source of a function that reads one message in one version. Called by `compiler.py` only.

Fields of a fixed size are gathered in a run and unpacked at once; a run may begin with the bytes of a string whose
length was the last value of the run before it. Positions only grow, so that a length which reaches behind the end shows
at the next fixed read, or in one comparison at the very end.
"""

from __future__ import annotations

from struct import calcsize, unpack_from
from struct import error as StructError
from typing import Any, NamedTuple

import msgspec

from tidelog.wire.layout import FIXED_FORMATS, LENGTH_FORMATS, Array, Field, Kind, Nested, fields_in, fields_of
from tidelog.wire.primitives import (
    ELEMENTS_MAX,
    MalformedMessage,
    StringReaders,
    known_uuids,
    long_uvarint,
    read_uvarint,
    remember_uuid,
    skip_tags,
    unpacker,
)
from tidelog.wire.schema import Message, Scalar
from tidelog.wire.source import Namespace, Source


class Item(NamedTuple):
    """A fixed-size value and the variable it goes to."""

    format: str
    target: str


class PendingString(NamedTuple):
    """A string whose length has been read and whose bytes come next."""

    target: str
    length: str
    label: str
    compact: bool
    nullable: bool


def malformed(label: str, error: Exception) -> MalformedMessage:
    """Say what is wrong with the bytes, in the words of the protocol."""
    if isinstance(error, UnicodeDecodeError):
        return MalformedMessage(f"{label}: a string is not UTF-8")
    return MalformedMessage(f"{label}: it ends too early")


def null_found(label: str) -> MalformedMessage:
    return MalformedMessage(f"{label} may not be null")


def misfit(label: str) -> MalformedMessage:
    return MalformedMessage(f"{label}: a length does not fit the bytes")


def too_many(label: str) -> MalformedMessage:
    return MalformedMessage(f"{label}: a message has at most {ELEMENTS_MAX} elements")


def plus(expression: str, number: int) -> str:
    """A sum, without what does nothing."""
    return f"{expression} {'+' if number > 0 else '-'} {abs(number)}" if number else expression


def read_namespace() -> Namespace:
    """What the generated code refers to, and the names that it gives to its own."""
    return {
        "read": None,
        "buffer": None,
        "position": None,
        "begun": None,
        "budget": None,
        "error": None,
        "IndexError": IndexError,
        "StructError": StructError,
        "UnicodeDecodeError": UnicodeDecodeError,
        "known_uuid": known_uuids.get,
        "long_uvarint": long_uvarint,
        "malformed": malformed,
        "misfit": misfit,
        "null_found": null_found,
        "read_uvarint": read_uvarint,
        "remember_uuid": remember_uuid,
        "skip_tags": skip_tags,
        "too_many": too_many,
        "unpack_from": unpack_from,
    }


class ReadSource:
    """The general way to read a message; `usual_source.py` adds the quick way for one shape."""

    def __init__(self, source: Source, message: type[Message], version: int, flexible: bool) -> None:
        self._source = source
        self._message = message
        self._version = version
        self._flexible = flexible
        self._label = f"{message.__name__} v{version}"
        self._string: PendingString | None = None
        self._run: list[Item] = []
        self._then: list[str] = []
        # Whether a length was followed without anything having been read behind it yet.
        self._unchecked = False
        self._within_tag = False

    def emit(self) -> None:
        """Emit the reading of the message at `position`, up to the return."""
        source = self._source
        source.line(f"budget = {ELEMENTS_MAX}")
        made = self._struct(self._message, self._label)
        self._flush()
        if self._unchecked:
            with source.block("if position > len(buffer):"):
                source.line(f"raise misfit({self._label!r})")
        source.line(f"return {made}, position")

    # Runs

    def _gather(self, format: str, target: str) -> None:
        self._run.append(Item(format, target))

    def _afterwards(self, line: str) -> None:
        """Emit a line that needs the values of the run."""
        if self._run or self._string is not None:
            self._then.append(line)
        else:
            self._source.line(line)

    def _flush(self) -> None:
        """Emit the reading of everything gathered, and what was to happen afterwards."""
        string, run, then = self._string, self._run, self._then
        self._string, self._run, self._then = None, [], []
        if string is None:
            self._unpack(run)
        else:
            self._unpack_behind_string(string, run)
        for line in then:
            self._source.line(line)

    def _unpack(self, run: list[Item]) -> None:
        if not run:
            return
        source = self._source
        self._unchecked = False
        if len(run) == 1 and run[0].format == "B":
            source.line(f"{run[0].target} = buffer[position]")
            source.line("position += 1")
            return
        format = "".join(item.format for item in run)
        unpack = source.constant(f"unpack_{format.replace('?', 't')}", unpacker(format))
        targets = ", ".join(item.target for item in run) if len(run) > 1 else f"({run[0].target},)"
        source.line(f"{targets} = {unpack}(buffer, position)")
        source.line(f"position += {calcsize('>' + format)}")

    def _unpack_behind_string(self, string: PendingString, run: list[Item]) -> None:
        source = self._source
        length, extra = string.length, int(string.compact)
        format = "".join(item.format for item in run)
        readers = source.constant("strings", StringReaders(string.label, string.compact, format))
        raw = source.fresh("raw")
        targets = ", ".join([raw, *(item.target for item in run)]) if run else f"({raw},)"
        if string.nullable:
            short, long = (
                (f"0 < {length} < 128", length) if string.compact else (f"0 <= {length} < 128", f"{length} >= 0")
            )
        else:
            short, long = f"{length} < 128", ""
        with source.block(f"if {short}:"):
            source.line(f"{targets} = {readers}[{length}](buffer, position)")
            source.line(f"position += {plus(length, calcsize('>' + format) - extra)}")
            source.line(f"{string.target} = {raw}.decode()")
        with source.block(f"elif {long}:" if long else "else:"):
            if string.compact:
                source.line(f"{length}, position = long_uvarint(buffer, position, {length})")
            end = source.fresh("end")
            source.line(f"{end} = position + {plus(length, -extra)}")
            source.line(f"{string.target} = buffer[position:{end}].tobytes().decode()")
            source.line(f"position = {end}")
            self._unpack(run)
        if string.nullable:
            with source.block("else:"):
                source.line(f"{string.target} = None")
                self._unpack(run)
        self._unchecked = not run

    # Values

    def _struct(self, message: type[Message], label: str) -> str:
        """Read a struct; gives the expression that makes it once the run is flushed."""
        fields = fields_in(message, self._version)
        values = {field.name: self._field(field, f"{label}: {field.name}") for field in fields.inline}
        if self._flexible:
            self._tagged(fields.tagged, values, label)
        else:
            assert not fields.tagged, f"{label} has tagged fields but is not flexible"
        return f"{self._source.constant(message.__name__, message)}({', '.join(self._arguments(message, values))})"

    def _field(self, field: Field, label: str) -> str:
        """Read a field; gives its expression."""
        target = self._source.fresh(field.name)
        compact = self._flexible and not field.inflexible
        self._value(field.kind, target, label, self._version in field.nullable, compact)
        return target

    def _tagged(self, tagged: tuple[tuple[int, Field], ...], values: dict[str, str], label: str) -> None:
        """Read the section of tagged fields that ends a struct, and add their expressions to `values`."""
        source = self._source
        tags = source.fresh("tags")
        self._gather("B", tags)
        self._flush()
        for _, field in tagged:
            values[field.name] = target = source.fresh(field.name)
            source.line(f"{target} = {self._default(field)}")
        with source.block(f"if {tags}:"):
            self._tags(tags, [(number, field, values[field.name]) for number, field in tagged], label)
        self._unchecked = False

    def _arguments(self, message: type[Message], values: dict[str, str]) -> list[str]:
        """Positional arguments up to the last field that the version has; msgspec knows the defaults of the rest."""
        fields = list(fields_of(message))
        while fields and fields[-1].name not in values:
            fields.pop()
        return [values[field.name] if field.name in values else self._default(field) for field in fields]

    def _default(self, field: Field) -> str:
        if field.default_factory is list:
            return "[]"
        if field.default_factory is not msgspec.NODEFAULT:
            return f"{self._source.constant(field.default_factory.__name__, field.default_factory)}()"
        default: Any = field.default
        if default is None or type(default) in (bool, int, str, bytes):
            return repr(default)
        return self._source.constant("default", default)

    def _value(self, kind: Kind, target: str, label: str, nullable: bool, compact: bool) -> None:
        match kind:
            case Scalar(name="uuid"):
                raw = self._source.fresh("raw")
                self._gather("16s", raw)
                self._afterwards(f"{target} = known_uuid({raw}) or remember_uuid({raw})")
            case Scalar(name="string"):
                length = self._length(LENGTH_FORMATS["string"], compact)
                self._string = PendingString(target, length, label, compact, nullable)
            case Scalar(name="bytes" | "records"):
                self._bytes(target, label, nullable, compact)
            case Scalar(name):
                self._gather(FIXED_FORMATS[name], target)
            case Array(element):
                self._array(element, target, label, nullable, compact)
            case Nested(message):
                self._nested(message, target, label, nullable)

    def _length(self, format: str, compact: bool) -> str:
        """Read the length or count that stands before a value; of a varint only the first byte."""
        length = self._source.fresh("n")
        self._gather("B" if compact else format, length)
        self._flush()
        return length

    def _bytes(self, target: str, label: str, nullable: bool, compact: bool) -> None:
        source = self._source
        length = source.fresh("n")
        self._gather("B" if compact else "i", length)
        if compact and not self._within_tag:
            # Two bytes hold lengths up to 16 KiB, which is where most record batches are. The second one is there even
            # if it is not part of the length: at least the tagged fields of the struct follow.
            second = source.fresh("second")
            self._gather("B", second)
            self._flush()
            with source.block(f"if {length} < 128:"):
                source.line("position -= 1")
            with source.block(f"elif {second} < 128:"):
                source.line(f"{length} = {length} & 127 | {second} << 7")
            with source.block("else:"):
                source.line(f"{length}, position = long_uvarint(buffer, position - 1, {length})")
        else:
            self._flush()
            if compact:
                self._whole_varint(length)
        with source.block(f"if {length}:" if compact else f"if {length} >= 0:"):
            end = source.fresh("end")
            source.line(f"{end} = position + {plus(length, -int(compact))}")
            source.line(f"{target} = buffer[position:{end}]")
            source.line(f"position = {end}")
        with source.block("else:"):
            source.line(f"{target} = None" if nullable else f"raise null_found({label!r})")
        self._unchecked = True

    def _whole_varint(self, length: str) -> None:
        with self._source.block(f"if {length} > 127:"):
            self._source.line(f"{length}, position = long_uvarint(buffer, position, {length})")

    def _array(self, element: Kind, target: str, label: str, nullable: bool, compact: bool) -> None:
        source = self._source
        count = self._length("i", compact)
        if compact:
            self._whole_varint(count)
        absent = f"not {count}" if compact else f"{count} < 0"
        if not nullable:
            with source.block(f"if {absent}:"):
                source.line(f"raise null_found({label!r})")
            self._elements(element, target, count, label, compact)
            return
        with source.block(f"if {absent}:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            self._elements(element, target, count, label, compact)

    def _elements(self, element: Kind, target: str, count: str, label: str, compact: bool) -> None:
        source = self._source
        before = self._unchecked
        source.line(f"budget -= {count}")
        with source.block("if budget < 0:"):
            source.line(f"raise too_many({label!r})")
        if isinstance(element, Scalar) and element.name in FIXED_FORMATS and element.name != "uuid":
            format = FIXED_FORMATS[element.name]
            with source.block(f"if {count} > {int(compact)}:"):
                if compact:
                    source.line(f"{count} -= 1")
                source.line(f'{target} = [*unpack_from(f">{{{count}}}{format}", buffer, position)]')
                size = calcsize(">" + format)
                source.line(f"position += {count} * {size}" if size > 1 else f"position += {count}")
            with source.block("else:"):
                source.line(f"{target} = []")
            return
        if isinstance(element, Nested) and not self._flexible and not fields_in(element.message, self._version).inline:
            # Nothing is read for such an element, so a huge count would not run into the end.
            with source.block(f"if {count} > len(buffer) - position:"):
                source.line(f"raise misfit({label!r})")
        source.line(f"{target} = []")
        with source.block(f"while {count} > {int(compact)}:"):
            source.line(f"{count} -= 1")
            if isinstance(element, Nested):
                made = self._struct(element.message, f"{label}: {element.message.__name__}")
            else:
                made = source.fresh("element")
                self._value(element, made, f"{label}: element", False, compact)
            self._flush()
            source.line(f"{target}.append({made})")
        self._unchecked = before or self._unchecked

    def _nested(self, message: type[Message], target: str, label: str, nullable: bool, tagged: bool = False) -> None:
        if not nullable:
            self._afterwards(f"{target} = {self._struct(message, label)}")
            return
        source = self._source
        marker = source.fresh("marker")
        self._gather("b", marker)
        self._flush()
        # Apache Kafka marks a null struct with -1, but with 0 when it is a tagged field.
        with source.block(f"if {marker} {'<=' if tagged else '<'} 0:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            made = self._struct(message, label)
            self._flush()
            source.line(f"{target} = {made}")

    def _tags(self, tags: str, known: list[tuple[int, Field, str]], label: str) -> None:
        source = self._source
        if not known:
            source.line(f"position = skip_tags(buffer, position, {tags})")
            return
        tag, size, end = source.fresh("tag"), source.fresh("size"), source.fresh("end")
        self._whole_varint(tags)
        outermost, self._within_tag = self._within_tag, True
        with source.block(f"while {tags}:"):
            source.line(f"{tags} -= 1")
            source.line(f"{tag}, position = read_uvarint(buffer, position)")
            source.line(f"{size}, position = read_uvarint(buffer, position)")
            source.line(f"{end} = position + {size}")
            with source.block(f"if {end} > len(buffer):"):
                source.line(f"raise misfit({label!r})")
            for index, (number, field, target) in enumerate(known):
                with source.block(f"{'elif' if index else 'if'} {tag} == {number}:"):
                    nullable = self._version in field.nullable
                    if isinstance(field.kind, Nested):
                        self._nested(field.kind.message, target, f"{label}: {field.name}", nullable, tagged=True)
                    else:
                        self._value(field.kind, target, f"{label}: {field.name}", nullable, True)
                    self._flush()
                    with source.block(f"if position != {end}:"):
                        source.line(f"raise misfit({label!r})")
            with source.block("else:"):
                source.line(f"position = {end}")
        self._within_tag = outermost
