"""Writes the source of a function that writes one message in one version. Called by `compiler.py` only.

Values of a fixed size are gathered in a run and packed at once, together with one string whose length picks the pack
function. An empty section of tagged fields is a zero byte of the run that it ends.
"""

from __future__ import annotations

from struct import Struct, calcsize, pack
from struct import error as StructError
from typing import Any, NamedTuple

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.wire.layout import FIXED_FORMATS, LENGTH_FORMATS, Array, Field, Kind, Nested, fields_in
from tidelog.wire.primitives import StringWriters, UnwritableMessage, packer, uvarint
from tidelog.wire.schema import Message, Scalar
from tidelog.wire.source import Namespace, Source

BUFFERS = frozenset({bytes, bytearray, memoryview})
# The length of a frame does not count itself.
PUT_LENGTH = "put_length(out, 0, len(out) + out.spliced_bytes - 4)"
# A zero byte takes no argument in a pack.
ZERO = "x"


class Item(NamedTuple):
    """A fixed-size value; `expression` is empty for the zero byte."""

    format: str
    expression: str


class PendingString(NamedTuple):
    """A string in the run: its length as it is on the wire, and its bytes."""

    length: str
    raw: str
    compact: bool
    # Whether it is known to be short, so that no other case needs writing out.
    short: bool = False


def unwritable(label: str, error: Exception) -> UnwritableMessage:
    return UnwritableMessage(f"{label}: a value does not fit its field: {error}")


def unsupported(label: str) -> UnwritableMessage:
    return UnwritableMessage(f"{label} has a value, but this version has no such field", ErrorCode.UNSUPPORTED_VERSION)


def splice(out: Any, piece: Any, length: int) -> None:
    """Leave out bytes that the connection will send from a file, and note where they belong."""
    if isinstance(piece, bytes | bytearray | memoryview):
        out += piece
    elif length:
        if not out.splices:
            out.splices = []
        out.splices.append((len(out), piece))
        out.spliced_bytes += length


def write_namespace() -> Namespace:
    """What the generated code refers to, and the names that it gives to its own."""
    return {
        "write": None,
        "respond": None,
        "correlation_id": None,
        "message": None,
        "out": None,
        "error": None,
        "AttributeError": AttributeError,
        "BUFFERS": BUFFERS,
        "StructError": StructError,
        "TypeError": TypeError,
        "ValueError": ValueError,
        "pack": pack,
        "put_length": Struct(">i").pack_into,
        "splice": splice,
        "type": type,
        "unsupported": unsupported,
        "unwritable": unwritable,
        "uvarint": uvarint,
    }


class Frame(NamedTuple):
    """What stands before a response: its length, to be filled in, and a header."""

    flexible_header: bool

    @property
    def items(self) -> list[Item]:
        return [Item("i", "correlation_id"), *([Item(ZERO, "")] if self.flexible_header else [])]


class WriteSource:
    """The general way to write a message; `usual_source.py` adds the quick way for one shape.

    With a frame it makes the whole frame of a response; its header is part of the first run.
    """

    def __init__(
        self, source: Source, message: type[Message], version: int, flexible: bool, frame: Frame | None = None
    ) -> None:
        self._source = source
        self._message = message
        self._version = version
        self._flexible = flexible
        self._frame = frame
        self._label = f"{message.__name__} v{version}"
        self._out = "out"
        self._before: list[Item] = []
        self._string: PendingString | None = None
        self._behind: list[Item] = []

    def emit(self) -> None:
        """Emit the writing of `message` to `out`, up to the return."""
        if self._frame is not None:
            self._before += [Item("4x", ""), *self._frame.items]
        self._struct(self._message, "message", self._label)
        self._flush()
        if self._frame is not None:
            self._source.line(PUT_LENGTH)
            self._source.line("return out")

    # Runs

    def _gather(self, format: str, expression: str = "") -> None:
        (self._before if self._string is None else self._behind).append(Item(format, expression))

    def _gather_string(self, string: PendingString) -> None:
        if self._string is not None:
            self._flush()
        self._string = string

    def _take_run(self) -> tuple[list[Item], PendingString | None, list[Item]]:
        run = self._before, self._string, self._behind
        self._before, self._string, self._behind = [], None, []
        return run

    def _give_run(self, run: tuple[list[Item], PendingString | None, list[Item]]) -> None:
        """Go on with a run in one branch that may also end in another."""
        self._before, self._string, self._behind = list(run[0]), run[1], list(run[2])

    def _flush(self) -> None:
        """Emit the writing of everything gathered."""
        source = self._source
        before, string, behind = self._take_run()
        if string is None:
            self._append(self._packed(before))
            return
        writers = source.constant("strings", StringWriters(_format(before), string.compact, _format(behind)))
        arguments = [*_arguments(before), string.length, string.raw, *_arguments(behind)]
        short = f"{writers}[{string.length}]({', '.join(arguments)})"
        if string.short:
            self._append(short)
            return
        with source.block(f"if {string.length} < 128:"):
            self._append(short)
        with source.block("else:"):
            if string.compact:
                self._append(self._packed(before), f"uvarint({string.length})", string.raw)
            else:
                self._append(self._packed([*before, Item("h", string.length)]), string.raw)
            self._append(self._packed(behind))

    def _append(self, *expressions: str) -> None:
        joined = " + ".join(filter(None, expressions))
        if joined:
            self._source.line(f"{self._out} += {joined}")

    def _packed(self, run: list[Item]) -> str:
        """The expression for the bytes of a run without strings."""
        if not run:
            return ""
        format, arguments = _format(run), _arguments(run)
        if not arguments:
            return repr(bytes(calcsize(format)))
        name = f"pack_{format.replace('?', 't')}"
        return f"{self._source.constant(name, packer(format))}({', '.join(arguments)})"

    # Values

    def _struct(self, message: type[Message], holder: str, label: str) -> None:
        source = self._source
        fields = fields_in(message, self._version)
        for field in fields.absent:
            if not field.ignorable:
                with source.block(f"if {self._differs(field, f'{holder}.{field.name}')}:"):
                    source.line(f"raise unsupported({f'{label}: {field.name}'!r})")
        for field in fields.inline:
            nullable = self._version in field.nullable
            compact = self._flexible and not field.inflexible
            self._value(field.kind, f"{holder}.{field.name}", f"{label}: {field.name}", nullable, compact)
        if not self._flexible:
            assert not fields.tagged, f"{label} has tagged fields but is not flexible"
        elif not fields.tagged:
            self._gather(ZERO)
        else:
            self._tags(fields.tagged, holder, label)

    def _differs(self, field: Field, expression: str) -> str:
        """The condition that a value is not the default of its field."""
        if field.default_factory is list:
            # A null array differs from an empty one.
            return f"({expression} or {expression} is None)"
        default = field.make_default()
        if default is None:
            return f"{expression} is not None"
        if type(default) in (bool, int, float, str, bytes):
            return f"{expression} != {default!r}"
        if field.default_factory is msgspec.NODEFAULT:
            constant = self._source.constant("default", default)
            return f"{expression} is not {constant} and {expression} != {constant}"
        return f"{expression} != {self._source.constant('default', default)}"

    def _value(
        self, kind: Kind, expression: str, label: str, nullable: bool, compact: bool, tagged: bool = False
    ) -> None:
        if isinstance(kind, Scalar) and kind.name in FIXED_FORMATS:
            as_bytes = '.int.to_bytes(16, "big")' if kind.name == "uuid" else ""
            self._gather(FIXED_FORMATS[kind.name], expression + as_bytes)
            return
        source = self._source
        value = expression
        if not expression.isidentifier():
            value = source.fresh(expression.rpartition(".")[2])
            source.line(f"{value} = {expression}")
        if not nullable:
            self._present(kind, value, label, compact)
            return
        run = self._take_run()
        with source.block(f"if {value} is None:"):
            self._give_run(run)
            self._null(kind, compact, tagged)
            self._flush()
        with source.block("else:"):
            self._give_run(run)
            if isinstance(kind, Nested):
                self._gather("b", "1")
            self._present(kind, value, label, compact)
            self._flush()

    def _null(self, kind: Kind, compact: bool, tagged: bool) -> None:
        match kind:
            # Apache Kafka marks a null struct with -1, but with 0 when it is a tagged field.
            case Nested() if not tagged:
                self._gather("b", "-1")
            case Scalar(name) if not compact:
                self._gather(LENGTH_FORMATS[name], "-1")
            case Array() if not compact:
                self._gather("i", "-1")
            case _:
                self._gather(ZERO)

    def _present(self, kind: Kind, value: str, label: str, compact: bool) -> None:
        source = self._source
        match kind:
            case Scalar(name="string"):
                raw, length = source.fresh("raw"), source.fresh("n")
                source.line(f"{raw} = {value}.encode()")
                source.line(f"{length} = len({raw})" + (" + 1" if compact else ""))
                self._gather_string(PendingString(length, raw, compact))
            case Scalar(name):
                self._bytes(value, compact, may_be_spliced=name == "records")
            case Array(element):
                self._array(element, value, label, compact)
            case Nested(message):
                self._struct(message, value, label)

    def _bytes(self, value: str, compact: bool, may_be_spliced: bool) -> None:
        length = self._length(value, compact, two_bytes=True)
        if not may_be_spliced:
            self._append(value)
            return
        with self._source.block(f"if type({value}) in BUFFERS:"):
            self._append(value)
        with self._source.block("else:"):
            self._source.line(f"splice({self._out}, {value}, {length})")

    def _length(self, value: str, compact: bool, two_bytes: bool = False) -> str:
        """Write the length or count before a value, together with the run before it; gives the length."""
        source = self._source
        length = source.fresh("n")
        if not compact:
            source.line(f"{length} = len({value})")
            self._gather("i", length)
            self._flush()
            return length
        source.line(f"{length} = len({value}) + 1")
        run = self._take_run()
        with source.block(f"if {length} < 128:"):
            self._give_run(run)
            self._gather("B", length)
            self._flush()
        if two_bytes:
            # Most record batches are shorter than 16 KiB.
            with source.block(f"elif {length} < 16384:"):
                self._give_run(run)
                self._gather("B", f"{length} & 127 | 128")
                self._gather("B", f"{length} >> 7")
                self._flush()
        with source.block("else:"):
            self._give_run(run)
            self._flush()
            self._append(f"uvarint({length})")
        return f"{length} - 1"

    def _array(self, element: Kind, value: str, label: str, compact: bool) -> None:
        source = self._source
        self._length(value, compact)
        if isinstance(element, Scalar) and element.name in FIXED_FORMATS and element.name != "uuid":
            self._append(f'pack(f">{{len({value})}}{FIXED_FORMATS[element.name]}", *{value})')
            return
        each = source.fresh("each")
        with source.block(f"for {each} in {value}:"):
            if isinstance(element, Nested):
                self._struct(element.message, each, f"{label}: {element.message.__name__}")
            else:
                self._value(element, each, f"{label}: element", False, compact)
            self._flush()

    def _tags(self, tagged: tuple[tuple[int, Field], ...], holder: str, label: str) -> None:
        """Tagged fields that have their default are left out (KIP-482), which is nearly always all of them."""
        source = self._source
        run = self._take_run()
        values = [(number, field, source.fresh(field.name)) for number, field in tagged]
        conditions = [self._differs(field, value) for _, field, value in values]
        for _, field, value in values:
            source.line(f"{value} = {holder}.{field.name}")
        with source.block(f"if {' or '.join(conditions)}:"):
            self._give_run(run)
            self._flush()
            outer, tags = self._out, source.fresh("tags")
            count = source.fresh("count")
            source.line(f"{tags} = bytearray()")
            source.line(f"{count} = 0")
            for (number, field, value), condition in zip(values, conditions, strict=True):
                with source.block(f"if {condition}:"):
                    source.line(f"{count} += 1")
                    content = source.fresh("content")
                    source.line(f"{content} = bytearray()")
                    self._out = content
                    nullable = self._version in field.nullable
                    self._value(field.kind, value, f"{label}: {field.name}", nullable, True, tagged=True)
                    self._flush()
                    source.line(f"{tags} += uvarint({number}) + uvarint(len({content})) + {content}")
            self._out = outer
            self._append(f"uvarint({count})", tags)
        with source.block("else:"):
            self._give_run(run)
            self._gather(ZERO)
            self._flush()


def _format(run: list[Item]) -> str:
    return "".join(item.format for item in run)


def _arguments(run: list[Item]) -> list[str]:
    return [item.expression for item in run if item.expression]
