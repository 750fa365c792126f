"""Writes the source of the quick way through a message of its usual shape, for which a declaration has `usually(...)`.

With the lengths known beforehand nearly the whole message is one unpack, or one pack. The shape is: arrays and strings
as long as they are marked, other arrays empty, other strings short, what may be null null, no tagged field. A message
of any other shape leaves the quick way, before anything is decided or written, for the general one.
"""

from __future__ import annotations

from contextlib import ExitStack
from struct import calcsize
from typing import NamedTuple

from tidelog.wire.layout import FIXED_FORMATS, LENGTH_FORMATS, Array, Field, Kind, Nested, fields_in
from tidelog.wire.primitives import StringReaders
from tidelog.wire.read_source import PendingString as StringToRead
from tidelog.wire.read_source import ReadSource, plus
from tidelog.wire.schema import Message, Scalar
from tidelog.wire.source import Source
from tidelog.wire.write_source import PUT_LENGTH, ZERO, Frame, Item, WriteSource
from tidelog.wire.write_source import PendingString as StringToWrite


def _usual_size_min(message: type[Message], version: int, flexible: bool) -> int:
    """The fewest bytes that a struct of the usual shape takes."""
    size = int(flexible)
    for field in fields_in(message, version).inline:
        compact = flexible and not field.inflexible
        match field.kind:
            case Scalar(name) if name in FIXED_FORMATS:
                size += calcsize(">" + FIXED_FORMATS[name])
            case Scalar(name):
                size += 1 if compact else calcsize(">" + LENGTH_FORMATS[name])
            case Array(element):
                size += 1 if compact else calcsize(">i")
                if isinstance(element, Nested) and field.usual:
                    size += _usual_size_min(element.message, version, flexible)
            case Nested(nested):
                size += 1 if version in field.nullable else _usual_size_min(nested, version, flexible)
    return size


class UsualReadSource(ReadSource):
    """Reads on within one condition after the other; the innermost returns the message."""

    def __init__(self, source: Source, message: type[Message], version: int, flexible: bool) -> None:
        super().__init__(source, message, version, flexible)
        self._conditions: list[str] = []
        self._blocks = ExitStack()

    def emit(self) -> None:
        with self._blocks:
            # Shorter messages would have us read behind their end, and an exception costs more than all the rest.
            size_min = _usual_size_min(self._message, self._version, self._flexible)
            self._conditions.append(f"len(buffer) - position >= {size_min}")
            self._enter()
            made = self._struct(self._message, self._label)
            self._flush()
            if self._unchecked:
                self._conditions.append("position <= len(buffer)")
                self._enter()
            self._source.line(f"return {made}, position")

    def _enter(self) -> None:
        """Go on only if what was read is as usual."""
        if self._conditions:
            self._blocks.enter_context(self._source.block(f"if {' and '.join(self._conditions)}:"))
            self._conditions = []

    def _flush(self) -> None:
        string, run, then = self._string, self._run, self._then
        self._string, self._run, self._then = None, [], []
        if string is None:
            self._unpack(run)
        else:
            format = "".join(item.format for item in run)
            readers = self._source.constant("strings", StringReaders(string.label, string.compact, format))
            targets = ", ".join([string.target, *(item.target for item in run)])
            self._source.line(f"{targets}{'' if run else ','} = {readers}[{string.length}](buffer, position)")
            self._source.line(f"position += {plus(string.length, calcsize('>' + format) - int(string.compact))}")
            then.insert(0, f"{string.target} = {string.target}.decode()")
            self._unchecked = False
        self._enter()
        for line in then:
            self._source.line(line)

    def _field(self, field: Field, label: str) -> str:
        nullable = self._version in field.nullable
        compact = self._flexible and not field.inflexible
        match field.kind:
            case Array(element):
                return self._usual_array(element, field.usual or 0, nullable, compact, label)
            case Scalar(name="string") if nullable or field.usual == 0:
                length = self._gathered(LENGTH_FORMATS["string"], compact)
                if nullable:
                    self._conditions.append(f"not {length}" if compact else f"{length} < 0")
                    return "None"
                self._conditions.append(f"{length} == {int(compact)}")
                return '""'
            case Scalar(name="string"):
                target = self._source.fresh(field.name)
                length = self._gathered(LENGTH_FORMATS["string"], compact)
                self._conditions.append(f"{int(compact)} <= {length} < 128")
                self._flush()
                self._string = StringToRead(target, length, label, compact, nullable=False)
                return target
            case Nested() if nullable:
                self._conditions.append(f"{self._gathered('b', compact=False)} < 0")
                return "None"
            case Nested(message):
                return self._struct(message, label)
            case _:
                return super()._field(field, label)

    def _usual_array(self, element: Kind, usual: int, nullable: bool, compact: bool, label: str) -> str:
        count = self._gathered("i", compact)
        if usual:
            assert usual == 1 and isinstance(element, Nested), f"{label}: only one struct is a usual array"
            self._conditions.append(f"{count} == {usual + int(compact)}")
            return f"[{self._struct(element.message, label)}]"
        if not nullable:
            self._conditions.append(f"{count} == {int(compact)}")
            return "[]"
        self._conditions.append(f"{count} <= {int(compact)}")
        return f"([] if {count} == {int(compact)} else None)"

    def _gathered(self, format: str, compact: bool) -> str:
        length = self._source.fresh("n")
        self._gather("B" if compact else format, length)
        return length

    def _tagged(self, tagged: tuple[tuple[int, Field], ...], values: dict[str, str], label: str) -> None:
        tags = self._source.fresh("tags")
        self._gather("B", tags)
        self._conditions.append(f"not {tags}")
        values.update((field.name, self._default(field)) for _, field in tagged)


class _Bytes(NamedTuple):
    """Bytes to be appended on their own."""

    value: str
    compact: bool
    may_be_spliced: bool


class UsualWriteSource(WriteSource):
    """Looks at the whole message first, within one condition after the other; the innermost writes all of it."""

    def __init__(
        self, source: Source, message: type[Message], version: int, flexible: bool, frame: Frame | None = None
    ) -> None:
        super().__init__(source, message, version, flexible, frame)
        self._conditions: list[str] = []
        self._blocks = ExitStack()
        self._parts: list[Item | StringToWrite | _Bytes] = []

    def emit(self) -> None:
        with self._blocks:
            self._struct(self._message, "message", self._label)
            self._enter()
            length_follows = self._write_frame_header() if self._frame is not None else False
            for part in self._parts:
                match part:
                    case Item(format, expression):
                        self._gather(format, expression)
                    case StringToWrite():
                        self._gather_string(part)
                    case _Bytes(value, compact, may_be_spliced):
                        self._bytes(value, compact, may_be_spliced)
            self._flush()
            if length_follows:
                self._source.line(PUT_LENGTH)
            self._source.line("return" if self._frame is None else "return out")

    def _write_frame_header(self) -> bool:
        """Begin with the header of the frame; gives whether its length has to be filled in at the end."""
        assert self._frame is not None
        if any(isinstance(part, _Bytes) for part in self._parts):
            self._before += [Item("4x", ""), *self._frame.items]
            return True
        size, strings = sum(calcsize(">" + item.format) for item in self._frame.items), []
        for part in self._parts:
            if isinstance(part, StringToWrite):
                # The length on the wire is one more in the compact form, as is the byte that it takes.
                size += 0 if part.compact else 2
                strings.append(part.length)
            elif isinstance(part, Item):
                size += calcsize(">" + part.format)
        self._before += [Item("i", " + ".join([*strings, str(size)])), *self._frame.items]
        return False

    def _enter(self) -> None:
        """Go on only if what was seen is as usual."""
        if self._conditions:
            self._blocks.enter_context(self._source.block(f"if {' and '.join(self._conditions)}:"))
            self._conditions = []

    def _look(self, holder: str, name: str) -> str:
        """Take a field out of its struct."""
        self._enter()
        value = self._source.fresh(name)
        self._source.line(f"{value} = {holder}.{name}")
        return value

    def _struct(self, message: type[Message], holder: str, label: str) -> None:
        fields = fields_in(message, self._version)
        for field in fields.absent:
            if not field.ignorable:
                self._conditions.append(f"not ({self._differs(field, f'{holder}.{field.name}')})")
        for field in fields.inline:
            self._field(field, holder, label)
        for _, field in fields.tagged:
            self._conditions.append(f"not ({self._differs(field, f'{holder}.{field.name}')})")
        if self._flexible:
            self._parts.append(Item(ZERO, ""))

    def _field(self, field: Field, holder: str, label: str) -> None:
        nullable = self._version in field.nullable
        compact = self._flexible and not field.inflexible
        expression = f"{holder}.{field.name}"
        match field.kind:
            case Array(element):
                self._usual_array(element, self._look(holder, field.name), field.usual or 0, nullable, compact, label)
            case Scalar(name="string") if nullable:
                self._conditions.append(f"{expression} is None")
                self._parts.append(Item(ZERO, "") if compact else Item("h", "-1"))
            case Scalar(name="string") if field.usual == 0:
                self._conditions.append(f'{expression} == ""')
                self._parts.append(Item("B", "1") if compact else Item("h", "0"))
            case Scalar(name="string"):
                self._enter()
                raw, length = self._source.fresh("raw"), self._source.fresh("n")
                self._source.line(f"{raw} = {expression}.encode()")
                self._source.line(f"{length} = {plus(f'len({raw})', int(compact))}")
                self._conditions.append(f"{length} < 128")
                self._parts.append(StringToWrite(length, raw, compact, short=True))
            case Scalar(name="bytes" | "records" as name):
                value = self._look(holder, field.name)
                if nullable:
                    self._conditions.append(f"{value} is not None")
                self._parts.append(_Bytes(value, compact, name == "records"))
            case Scalar(name):
                as_bytes = '.int.to_bytes(16, "big")' if name == "uuid" else ""
                self._parts.append(Item(FIXED_FORMATS[name], expression + as_bytes))
            case Nested() if nullable:
                self._conditions.append(f"{expression} is None")
                self._parts.append(Item("b", "-1"))
            case Nested(message):
                self._struct(message, self._look(holder, field.name), label)

    def _usual_array(self, element: Kind, value: str, usual: int, nullable: bool, compact: bool, label: str) -> None:
        extra = int(compact)
        if usual:
            assert usual == 1 and isinstance(element, Nested), f"{label}: only one struct is a usual array"
            if nullable:
                self._conditions.append(f"{value} is not None")
            self._conditions.append(f"len({value}) == {usual}")
            self._enter()
            each = self._source.fresh("each")
            self._source.line(f"{each} = {value}[0]")
            self._parts.append(Item("B" if compact else "i", str(usual + extra)))
            self._struct(element.message, each, label)
            return
        self._conditions.append(f"not {value}")
        if nullable:
            self._parts.append(Item("B" if compact else "i", f"{extra - 1} if {value} is None else {extra}"))
            return
        self._conditions.append(f"{value} is not None")
        self._parts.append(Item("B" if compact else "i", str(extra)))
