"""One request on its way through the broker: who asked, and where the answer goes."""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from tidelog.wire.compiler import Output
from tidelog.wire.frames import RequestHeader, encode_response
from tidelog.wire.schema import Response

FRAME_LENGTH: Final = Struct(">i")


class AnswersInOrder(Protocol):
    """What a call needs of its connection."""

    @property
    def peer_host(self) -> str: ...

    @property
    def listener_name(self) -> str: ...

    def answered(self, call: Call) -> None: ...

    def mute(self) -> None: ...

    def unmute(self) -> None: ...

    def close(self, reason: str) -> None: ...


class Call:
    """Handlers return the response, or keep the call and `answer` later; answers leave in the order of the requests."""

    __slots__ = ("connection", "header", "output")

    def __init__(self, connection: AnswersInOrder, header: RequestHeader) -> None:
        self.connection = connection
        self.header = header
        self.output: Output | None = None

    def answer(self, response: Response) -> None:
        header = self.header
        self.output = encode_response(header.correlation_id, response, header.api_version)
        self.connection.answered(self)

    def answer_encoded(self, frame: bytes) -> None:
        """What somebody else made of the request: a whole response without its length."""
        output = Output(FRAME_LENGTH.pack(len(frame)))
        output += frame
        self.output = output
        self.connection.answered(self)

    def answer_nothing(self) -> None:
        """acks=0: the client expects no bytes at all."""
        self.output = Output()
        self.connection.answered(self)

    def abort(self, reason: str) -> None:
        """Close the connection: the only way to tell a client that does not wait for an answer."""
        self.connection.close(reason)


class Calls(Call):
    """Requests that came one behind the other, and are answered together."""

    __slots__ = ("count",)

    count: int
