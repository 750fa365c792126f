"""One asyncio connection to one broker: connect, agree on versions, send any number of requests, answers in order.

Opened by `aio/network.py`, one for each broker. What the bytes mean is decided in `core/conversation.py`. A request
that is not answered in time ends the connection: nobody could tell its answer from the next one's.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeVar, cast

from tidelog.client.core.conversation import RESPONSE_BYTES_MAX, Conversation
from tidelog.client.core.landing import Landing
from tidelog.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, RequestExpired, check
from tidelog.client.security import NO_SECURITY, Security, check_authenticated, check_handshake
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.version import __version__
from tidelog.wire.batch import Buffer
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.wire.schema import Request, Response

SOFTWARE_NAME: Final = "tidelog"

R = TypeVar("R", bound=Response)


class Connection(asyncio.BufferedProtocol):
    """An open connection. A failure closes it and fails everything that waits for an answer."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self.closed = False
        self.idle_since = 0.0
        self._conversation = Conversation(client_id)
        self._landing = Landing(RESPONSE_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def features(self) -> dict[str, int]:
        """Levels of the features that the cluster has agreed on."""
        return self._conversation.features

    def version_of(self, request: type[Request], at_most: int | None = None) -> int:
        """The newest version of a request that both sides know; UnsupportedByBroker if there is none."""
        return self._conversation.version_of(request, at_most)

    def ask(self, request: Request, timeout_s: float, at_most: int | None = None) -> asyncio.Future[Any]:
        """Send a request; its answer comes as the result of the future."""
        version = self._conversation.version_of(type(request), at_most)
        return self._ask(self._conversation.ask_in_parts(request, version), timeout_s)

    def tell(self, request: Request, at_most: int | None = None) -> None:
        """Send a request that is never answered: Produce with acks=0."""
        version = self._conversation.version_of(type(request), at_most)
        self._write(self._conversation.ask_in_parts(request, version, answered=False))

    async def call(self, request: Request, response: type[R], timeout_s: float, at_most: int | None = None) -> R:
        """Send a request and wait for its answer."""
        answer = await self.ask(request, timeout_s, at_most)
        assert isinstance(answer, response), answer
        return answer

    async def negotiate(self, timeout_s: float) -> None:
        """Ask which versions the broker serves."""
        for attempt in ((), (0,)):
            _, frame = self._conversation.ask_versions(SOFTWARE_NAME, __version__, *attempt)
            answer = cast(ApiVersionsResponse, await self._ask([frame], timeout_s))
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        check(answer.error_code)
        self._conversation.learn_versions(answer.api_keys, answer.finalized_features)

    async def authenticate(self, security: Security, timeout_s: float) -> None:
        """Say who we are, and let the broker show that it knows us. AuthenticationFailed when it does not."""
        assert security.mechanism is not None
        handshake = SaslHandshakeRequest(security.mechanism)
        check_handshake(await self.call(handshake, SaslHandshakeResponse, timeout_s), security.mechanism)
        conversation = security.conversation()
        message: bytes | None = conversation.first()
        while message is not None:
            answer = await self.call(SaslAuthenticateRequest(message), SaslAuthenticateResponse, timeout_s)
            check_authenticated(answer)
            message = conversation.answer(bytes(answer.auth_bytes))

    def close(self, error: ClientError | None = None) -> None:
        """End the connection; who still waits gets the error."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        failure = error or BrokerUnreachable(f"The connection to {self.address} was closed.")
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(failure)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        plug = transport.get_extra_info("socket")
        if plug is not None and plug.family in (socket.AF_INET, socket.AF_INET6):
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        reason = f" ({error})" if error is not None else ""
        self.close(BrokerUnreachable(f"{self.address} closed the connection{reason}."))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._landing.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._landing.received(nbytes):
                answer = self._conversation.answer(frame)
                future, _ = self._waiting.popleft()
                if not future.done():
                    future.set_result(answer.response)
        except (ProtocolError, ValueError) as error:
            self.close(BrokerUnreachable(f"{self.address} answers what no broker would: {error}."))

    def _ask(self, frame: Sequence[Buffer], timeout_s: float) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed:
            future.set_exception(BrokerUnreachable(f"The connection to {self.address} was closed."))
            return future
        deadline = self._loop.time() + timeout_s
        self._waiting.append((future, deadline))
        self._write(frame)
        if self._timer is None or self._timer.when() > deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._look)
        return future

    def _write(self, frame: Sequence[Buffer]) -> None:
        for part in frame:
            if self._transport is not None and not self.closed:
                self._transport.write(part)

    def _look(self) -> None:
        """End the connection when an answer is overdue, else look again when the next one would be."""
        self._timer = None
        if not self._waiting:
            return
        due = min(deadline for _, deadline in self._waiting)
        if due <= self._loop.time():
            self.close(RequestExpired(f"{self.address} did not answer in time."))
        else:
            self._timer = self._loop.call_at(due, self._look)


async def connect(
    host: str, port: int, client_id: str, timeout_s: float, security: Security = NO_SECURITY
) -> Connection:
    """Open a connection, agree on versions, authenticate; BrokerUnreachable and others when that fails."""
    address = f"{host}:{port}"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await loop.create_connection(
                lambda: Connection(address, client_id),
                host,
                port,
                ssl=security.context,
                server_hostname=None if security.context is None else host,
            )
    except TimeoutError:
        raise BrokerUnreachable(f"Cannot connect to {address}: no answer in time.") from None
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationFailed(f"The certificate of {address} is not valid: {error.verify_message}") from None
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise BrokerUnreachable(f"Cannot connect to {address}: {reason[:1].lower() + reason[1:]}.") from None
    try:
        await connection.negotiate(timeout_s)
        if security.mechanism is not None:
            await connection.authenticate(security, timeout_s)
    except BaseException:
        connection.close()
        raise
    return connection
