"""Keys and values as Protocol Buffers: the bytes of one message of a generated class."""

from __future__ import annotations

from typing import Generic, TypeVar

from google.protobuf.message import Message

from tidelog.client.errors import SerializationFailed

M = TypeVar("M", bound=Message)


class ProtobufSerializer(Generic[M]):
    """Writes and reads messages of one generated class."""

    def __init__(self, kind: type[M]) -> None:
        self._kind = kind

    def serialize(self, topic: str, data: M | None) -> bytes | None:
        if data is None:
            return None
        if not isinstance(data, self._kind):
            raise SerializationFailed(f"A {self._kind.__name__} is wanted, not {type(data).__name__}.")
        return bytes(data.SerializeToString())

    def deserialize(self, topic: str, data: bytes | None) -> M | None:
        if data is None:
            return None
        message: M = self._kind()
        message.ParseFromString(data)
        return message
