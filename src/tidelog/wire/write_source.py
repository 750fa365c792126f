"""Writes the source of a function that writes one message in one version. Called by `compiler.py` only.

Values of a fixed size are gathered in a run and packed at once, together with one string whose length picks the pack
function. An empty section of tagged fields is a zero byte of the run that it ends.
"""

from __future__ import annotations

from struct import Struct, pack
from struct import error as StructError
from typing import Any, NamedTuple

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.wire.layout import FIXED_FORMATS, LENGTH_FORMATS, Array, Field, Kind, Nested, fields_in
from tidelog.wire.primitives import StringWriters, UnwritableMessage, packer, uvarint
from tidelog.wire.schema import Message, Scalar
from tidelog.wire.source import Namespace, Source

BUFFERS = frozenset({bytes, bytearray, memoryview})
# A zero byte takes no argument in a pack.
ZERO = "x"


class _Item(NamedTuple):
    """A fixed-size value; `expression` is empty for the zero byte."""

    format: str
    expression: str


class _String(NamedTuple):
    """A string in the run: its length as it is on the wire, and its bytes."""

    length: str
    raw: str
    compact: bool


def unwritable(label: str, error: Exception) -> UnwritableMessage:
    return UnwritableMessage(f"{label}: a value does not fit its field: {error}")


def unsupported(label: str) -> UnwritableMessage:
    return UnwritableMessage(f"{label} has a value, but this version has no such field", ErrorCode.UNSUPPORTED_VERSION)


def splice(out: Any, piece: Any) -> None:
    """Leave out bytes that the connection will send from a file, and note where they belong."""
    if isinstance(piece, bytes | bytearray | memoryview):
        out += piece
    elif len(piece):
        out.splices = [*out.splices, (len(out), piece)]


def write_source(message: type[Message], version: int, flexible: bool) -> tuple[str, Namespace]:
    """The source of `write(message, out)`, and the namespace to execute it in."""
    return _WriteSource(message, version, flexible).whole()


def response_source(
    message: type[Message], version: int, flexible: bool, flexible_header: bool, output: type[bytearray]
) -> tuple[str, Namespace]:
    """The source of `respond(correlation_id, message)`, which makes a whole frame of type `output`."""
    return _WriteSource(message, version, flexible).frame(flexible_header, output)


def frame_bytes(out: Any) -> int:
    """The length of a frame whose splices are still to be sent."""
    return len(out) - 4 + sum(len(piece) for _, piece in out.splices)


class _WriteSource:
    def __init__(self, message: type[Message], version: int, flexible: bool) -> None:
        self._message = message
        self._version = version
        self._flexible = flexible
        self._source = Source(
            {
                "write": None,
                "respond": None,
                "correlation_id": None,
                "frame_bytes": frame_bytes,
                "message": None,
                "out": None,
                "error": None,
                "AttributeError": AttributeError,
                "BUFFERS": BUFFERS,
                "StructError": StructError,
                "TypeError": TypeError,
                "ValueError": ValueError,
                "pack": pack,
                "splice": splice,
                "type": type,
                "unsupported": unsupported,
                "unwritable": unwritable,
                "uvarint": uvarint,
            }
        )
        self._label = f"{message.__name__} v{version}"
        self._out = "out"
        self._before: list[_Item] = []
        self._string: _String | None = None
        self._behind: list[_Item] = []

    def whole(self) -> tuple[str, Namespace]:
        source = self._source
        with source.block("def write(message, out):"):
            with source.block("try:"):
                self._struct(self._message, "message", self._label)
                self._flush()
            with source.block("except (AttributeError, StructError, TypeError, ValueError) as error:"):
                source.line(f"raise unwritable({self._label!r}, error) from error")
        return source.text(), source.namespace

    def frame(self, flexible_header: bool, output: type[bytearray]) -> tuple[str, Namespace]:
        source = self._source
        make, put_length = source.constant("Output", output), source.constant("put_length", Struct(">i").pack_into)
        with source.block("def respond(correlation_id, message):"):
            with source.block("try:"):
                source.line(f"out = {make}()")
                # The header is part of the first run; the length is filled in when it is known.
                self._gather("4x")
                self._gather("i", "correlation_id")
                if flexible_header:
                    self._gather(ZERO)
                self._struct(self._message, "message", self._label)
                self._flush()
                source.line(f"{put_length}(out, 0, frame_bytes(out) if out.splices else len(out) - 4)")
                source.line("return out")
            with source.block("except (AttributeError, StructError, TypeError, ValueError) as error:"):
                source.line(f"raise unwritable({self._label!r}, error) from error")
        return source.text(), source.namespace

    # Runs

    def _gather(self, format: str, expression: str = "") -> None:
        (self._before if self._string is None else self._behind).append(_Item(format, expression))

    def _gather_string(self, string: _String) -> None:
        if self._string is not None:
            self._flush()
        self._string = string

    def _take_run(self) -> tuple[list[_Item], _String | None, list[_Item]]:
        run = self._before, self._string, self._behind
        self._before, self._string, self._behind = [], None, []
        return run

    def _give_run(self, run: tuple[list[_Item], _String | None, list[_Item]]) -> None:
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
        with source.block(f"if {string.length} < 128:"):
            self._append(f"{writers}[{string.length}]({', '.join(arguments)})")
        with source.block("else:"):
            if string.compact:
                self._append(self._packed(before), f"uvarint({string.length})", string.raw)
            else:
                self._append(self._packed([*before, _Item("h", string.length)]), string.raw)
            self._append(self._packed(behind))

    def _append(self, *expressions: str) -> None:
        joined = " + ".join(filter(None, expressions))
        if joined:
            self._source.line(f"{self._out} += {joined}")

    def _packed(self, run: list[_Item]) -> str:
        """The expression for the bytes of a run without strings."""
        if not run:
            return ""
        format, arguments = _format(run), _arguments(run)
        if not arguments:
            return repr(bytes(len(run)))
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
            return f"{expression} != []"
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
                self._gather_string(_String(length, raw, compact))
            case Scalar(name):
                self._length(value, compact, two_bytes=True)
                if name == "bytes":
                    self._append(value)
                    return
                with source.block(f"if type({value}) in BUFFERS:"):
                    self._append(value)
                with source.block("else:"):
                    source.line(f"splice({self._out}, {value})")
            case Array(element):
                self._array(element, value, label, compact)
            case Nested(message):
                self._struct(message, value, label)

    def _length(self, value: str, compact: bool, two_bytes: bool = False) -> None:
        """Write the length or count before a value, together with the run before it."""
        source = self._source
        if not compact:
            self._gather("i", f"len({value})")
            self._flush()
            return
        length = source.fresh("n")
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


def _format(run: list[_Item]) -> str:
    return "".join(item.format for item in run)


def _arguments(run: list[_Item]) -> list[str]:
    return [item.expression for item in run if item.expression]
