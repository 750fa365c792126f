"""Keys and values to bytes and back: the two small interfaces, and those for bytes, text and JSON.

Given to producers and consumers by name or as objects; Avro and Protobuf, which need libraries, are in
`client/formats/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from tidelog.client.errors import InvalidOption, SerializationFailed


@runtime_checkable
class Serializer(Protocol):
    """Turns what a program has into bytes. A plain function of one argument does as well."""

    def serialize(self, topic: str, data: Any) -> bytes | None: ...


@runtime_checkable
class Deserializer(Protocol):
    """Turns bytes into what a program wants. A plain function of one argument does as well."""

    def deserialize(self, topic: str, data: bytes | None) -> Any: ...


class StringSerializer:
    """Text as UTF-8."""

    def serialize(self, topic: str, data: Any) -> bytes | None:
        if data is None:
            return None
        if not isinstance(data, str):
            raise SerializationFailed(f"A text is wanted, not {type(data).__name__}.")
        return data.encode()

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


class JsonSerializer:
    """Anything that JSON can say, dataclasses and msgspec structs included. `type_` is what comes out when reading."""

    def __init__(self, type_: Any = Any) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(type_)

    def serialize(self, topic: str, data: Any) -> bytes | None:
        return None if data is None else self._encoder.encode(data)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else self._decoder.decode(data)


ToBytes = Callable[[str, Any], bytes | None]
FromBytes = Callable[[str, bytes | None], Any]

NAMED: Final[dict[str, Callable[[], Any]]] = {"string": StringSerializer, "json": JsonSerializer}
UNCHANGED: Final = (None, "bytes")


def to_bytes(given: Any) -> ToBytes | None:
    """What a `key_serializer` or `value_serializer` means; None where bytes are handed over as they are."""
    if given in UNCHANGED:
        return None
    serializer = _named(given)
    if isinstance(serializer, Serializer):
        return _guarded(serializer.serialize)
    if callable(serializer):
        return _guarded(lambda _topic, data: serializer(data))
    raise InvalidOption(f"{given!r} is no serializer: it has no method `serialize` and cannot be called.")


def from_bytes(given: Any) -> FromBytes | None:
    """What a `key_deserializer` or `value_deserializer` means; None where bytes are handed out as they are."""
    if given in UNCHANGED:
        return None
    deserializer = _named(given)
    if isinstance(deserializer, Deserializer):
        return _guarded(deserializer.deserialize)
    if callable(deserializer):
        return _guarded(lambda _topic, data: deserializer(data))
    raise InvalidOption(f"{given!r} is no deserializer: it has no method `deserialize` and cannot be called.")


def _named(given: Any) -> Any:
    if not isinstance(given, str):
        is_converter = isinstance(given, type) and (hasattr(given, "serialize") or hasattr(given, "deserialize"))
        return given() if is_converter else given
    make = NAMED.get(given.lower())
    if make is None:
        raise InvalidOption(f"There is no serializer {given!r}; there are bytes, {', '.join(NAMED)}.")
    return make()


def _guarded(convert: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Whatever a format's library raises is one kind of failure to the caller."""

    def guarded(topic: str, data: Any) -> Any:
        try:
            return convert(topic, data)
        except SerializationFailed:
            raise
        except Exception as error:
            raise SerializationFailed(f"A record of {topic} cannot be converted: {error}") from error

    return guarded
