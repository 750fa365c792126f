"""One connection's side of the protocol: which versions both know, which answer belongs to which request.

Bytes in, bytes out; `client/connection.py` owns the socket. Answers come in the order of the requests, as the protocol
promises, so that what is in flight is a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.client.errors import UnsupportedByBroker
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import APIS
from tidelog.wire.batch import Buffer
from tidelog.wire.frames import FrameSplitter, decode_response, encode_request, encode_request_parts
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.schema import Request, Response, VersionRange

CORRELATION_ID_MAX: Final = 2**31 - 1
# Responses carry whole fetches; a broker that claims more than this is not one.
RESPONSE_BYTES_MAX: Final = 1024 * 1024 * 1024
# Every broker answers this version of ApiVersions, if only to say which versions it prefers (KIP-511).
API_VERSIONS_VERSION: Final = 3


class Answer(NamedTuple):
    """A response and the request it answers."""

    correlation_id: int
    response: Response


class _Asked(NamedTuple):
    correlation_id: int
    response: type[Response]
    version: int


class Conversation:
    """The state of one connection."""

    def __init__(self, client_id: str) -> None:
        self.served: dict[int, VersionRange] = {}
        # Levels of features that the whole cluster has agreed on, such as transaction.version.
        self.features: dict[str, int] = {}
        self._client_id = client_id
        self._splitter = FrameSplitter(RESPONSE_BYTES_MAX)
        self._asked: deque[_Asked] = deque()
        self._next_correlation_id = 0

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return len(self._asked)

    def version_of(self, request: type[Request], at_most: int | None = None) -> int:
        """The newest version of a request that both sides know."""
        ours = VersionRange.parse(request.VERSIONS)
        theirs = self.served.get(request.API_KEY)
        name = APIS[request.API_KEY].name
        if theirs is None:
            raise UnsupportedByBroker(f"The broker does not serve {name} requests.")
        newest = min(ours.last, theirs.last, ours.last if at_most is None else at_most)
        if newest < max(ours.first, theirs.first):
            raise UnsupportedByBroker(
                f"The broker serves {name} in versions {theirs.first}-{theirs.last}, we speak {ours.first}-{ours.last}."
            )
        return newest

    def ask(self, request: Request, version: int, *, answered: bool = True) -> tuple[int, bytes]:
        """The correlation id and the frame of a request. Only Produce with acks=0 is never answered."""
        correlation_id = self._next_id()
        frame = encode_request(request, version, correlation_id, self._client_id)
        if answered:
            self._asked.append(_Asked(correlation_id, _response_of(request), version))
        return correlation_id, frame

    def ask_in_parts(self, request: Request, version: int, *, answered: bool = True) -> list[Buffer]:
        """The frame of a request as parts to be sent one behind the other, so that large batches are not copied."""
        correlation_id = self._next_id()
        parts = encode_request_parts(request, version, correlation_id, self._client_id)
        if answered:
            self._asked.append(_Asked(correlation_id, _response_of(request), version))
        return parts

    def _next_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
        return correlation_id

    def ask_versions(self, name: str, software_version: str, version: int = API_VERSIONS_VERSION) -> tuple[int, bytes]:
        """The first request of a connection."""
        return self.ask(ApiVersionsRequest(name, software_version), version)

    def receive(self, data: bytes) -> list[Answer]:
        """Add what the socket gave; the answers that are now whole. MalformedMessage when it is no Kafka broker's."""
        return [self.answer(frame) for frame in self._splitter.feed(data)]

    def room(self) -> memoryview | None:
        """Where the rest of an answer belongs that has begun to come, for who can read right into it; see `filled`."""
        return self._splitter.room()

    def filled(self, count: int) -> list[Answer]:
        """So many bytes are in the room; the answer, if that was all of it."""
        return [self.answer(frame) for frame in self._splitter.filled(count)]

    def answer(self, frame: memoryview) -> Answer:
        """Read one whole frame. MalformedMessage when it answers nothing that was asked."""
        if not self._asked:
            raise MalformedMessage("the peer answers what was not asked")
        asked = self._asked.popleft()
        version = asked.version
        if asked.response is ApiVersionsResponse and frame[4:6].tobytes() == _UNSUPPORTED:
            # A broker that does not know our version of ApiVersions answers in version 0 (KIP-511).
            version = 0
        correlation_id, response = decode_response(asked.response, version, frame)
        if correlation_id != asked.correlation_id:
            raise MalformedMessage(f"the peer answers request {correlation_id}, not {asked.correlation_id}")
        return Answer(correlation_id, response)

    def learn_versions(self, served: Iterable[ApiVersion], features: Iterable[FinalizedFeatureKey] = ()) -> None:
        """Keep what the broker says it serves."""
        self.features = {feature.name: feature.max_version_level for feature in features}
        self.served = {api.api_key: VersionRange(api.min_version, api.max_version) for api in served}


_UNSUPPORTED: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


def _response_of(request: Request) -> type[Response]:
    response = request.RESPONSE
    assert issubclass(response, Response), response
    return response
