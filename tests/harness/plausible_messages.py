"""Requests with random but plausible content, the same for the same seed: names that exist, small numbers, lists of one
or two. They come further into a handler than noise does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.layout import Array, Field, Kind, Nested, fields_in
from tidelog.wire.schema import Message, Scalar

# Long waits would make a test wait.
WAIT_MS_MAX = 20
SMALL = (-2, -1, 0, 1, 2, 3)


class Plausible:
    def __init__(self, seed: object, names: Sequence[str], topic_ids: Sequence[UUID], batch: bytes) -> None:
        self._random = Random(str(seed))
        self._names = names
        self._topic_ids = [ZERO_UUID, *topic_ids]
        self._batch = batch

    def message(self, kind: type[Message], version: int) -> Message:
        fields = fields_in(kind, version)
        present = [*fields.inline, *(field for _, field in fields.tagged if self._random.random() < 0.5)]
        return kind(**{field.name: self._value(field, version) for field in present})

    def _value(self, field: Field, version: int) -> Any:
        if version in field.nullable and self._random.random() < 0.2:
            return None
        if self._random.random() < 0.1:
            return field.make_default()
        if field.name.endswith("_ms"):
            return self._random.choice((-1, 0, WAIT_MS_MAX))
        return self._of_kind(field.kind, version)

    def _of_kind(self, kind: Kind, version: int) -> Any:
        random = self._random
        match kind:
            case Array(element):
                return [self._of_kind(element, version) for _ in range(random.choice((0, 1, 1, 2)))]
            case Nested(message):
                return self.message(message, version)
            case Scalar("bool"):
                return random.random() < 0.5
            case Scalar("string"):
                return random.choice(self._names)
            case Scalar("bytes"):
                return random.randbytes(random.choice((0, 1, 20)))
            case Scalar("records"):
                return random.choice((b"", self._batch))
            case Scalar("uuid"):
                return random.choice(self._topic_ids)
            case Scalar("float64"):
                return random.choice((0.0, 1.5, 1e9))
            case Scalar("uint16" | "uint32"):
                return random.choice((0, 1, 2))
            case _:
                return random.choice(SMALL)
