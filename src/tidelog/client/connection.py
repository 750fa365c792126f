"""One blocking connection to one broker: connect, negotiate versions, send any number of requests, receive in order.

Used by `client/cluster.py`, one per broker; not for two threads at once. What the bytes mean is decided in
`core/conversation.py`.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Final, TypeVar

from tidelog.client.core.conversation import Answer, Conversation
from tidelog.client.deadline import Deadline
from tidelog.client.errors import AuthenticationFailed, BrokerUnreachable, RequestExpired, check
from tidelog.client.readiness import wait
from tidelog.client.security import NO_SECURITY, Security, check_authenticated, check_handshake
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.version import __version__
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.wire.schema import Request, Response, VersionRange

SOFTWARE_NAME: Final = "tidelog"
CONNECT_TIMEOUT_S: Final = 10.0
# The beginning of an answer, or all of a short one: the rest of a long one is read to where it stays.
RECEIVE_BYTES: Final = 16 * 1024
DECRYPTED_BYTES: Final = 1024 * 1024

R = TypeVar("R", bound=Response)


class Connection:
    """An open connection. A failure closes it: what was in flight stays unanswered."""

    def __init__(
        self, host: str, port: int, client_id: str, deadline: Deadline, security: Security = NO_SECURITY
    ) -> None:
        self.address = f"{host}:{port}"
        self._conversation = Conversation(client_id)
        self._answers: dict[int, Response] = {}
        self._abandoned: set[int] = set()
        self._socket = self._connect(host, port, deadline, security)
        try:
            self._negotiate(deadline)
            if security.mechanism is not None:
                self._authenticate(security, deadline)
        except Exception:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return self._conversation.in_flight

    @property
    def served(self) -> Mapping[int, VersionRange]:
        """The versions that the broker serves, by API key."""
        return self._conversation.served

    def fileno(self) -> int:
        """For `select`: a connection is ready when an answer, or a part of one, has come."""
        return self._socket.fileno()

    def version_of(self, request: type[Request], at_most: int | None = None) -> int:
        """The newest version of a request that both sides know; UnsupportedByBroker if there is none."""
        return self._conversation.version_of(request, at_most)

    def send(self, request: Request, version: int, deadline: Deadline, *, answered: bool = True) -> int:
        """Send a request without waiting for its answer. Gives the id to receive it by."""
        correlation_id, frame = self._conversation.ask(request, version, answered=answered)
        self._send(frame, deadline)
        return correlation_id

    def receive(self, correlation_id: int, response: type[R], deadline: Deadline) -> R:
        """Wait for an answer. When it does not come in time it is dropped on arrival."""
        while correlation_id not in self._answers:
            try:
                self._read(deadline)
            except RequestExpired:
                self._abandoned.add(correlation_id)
                raise
        answer = self._answers.pop(correlation_id)
        assert isinstance(answer, response), answer
        return answer

    def take(self, correlation_id: int, response: type[R]) -> R | None:
        """The answer if it is there already, without waiting."""
        while correlation_id not in self._answers and self._readable():
            self._read(Deadline(0))
        answer = self._answers.pop(correlation_id, None)
        assert answer is None or isinstance(answer, response), answer
        return answer

    def abandon(self, correlation_id: int) -> None:
        """Nobody waits for this answer any more."""
        if self._answers.pop(correlation_id, None) is None:
            self._abandoned.add(correlation_id)

    def call(self, request: Request, response: type[R], deadline: Deadline, *, at_most: int | None = None) -> R:
        """Send a request in the newest version that both know and wait for the answer."""
        version = self.version_of(type(request), at_most)
        return self.receive(self.send(request, version, deadline), response, deadline)

    def close(self) -> None:
        self._socket.close()

    def _connect(self, host: str, port: int, deadline: Deadline, security: Security) -> socket.socket:
        try:
            connected = socket.create_connection((host, port), min(deadline.remaining_s(), CONNECT_TIMEOUT_S) or None)
            if security.context is not None:
                connected = security.context.wrap_socket(connected, server_hostname=host)
                # TLS has messages of its own: what makes the socket readable need not be an answer.
                connected.setblocking(False)
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"The certificate of {self.address} is not valid: {error.verify_message}"
            ) from None
        except OSError as error:
            raise BrokerUnreachable(f"Cannot connect to {self.address}: {_reason(error)}.") from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _negotiate(self, deadline: Deadline) -> None:
        for attempt in ((), (0,)):
            correlation_id, frame = self._conversation.ask_versions(SOFTWARE_NAME, __version__, *attempt)
            self._send(frame, deadline)
            answer = self.receive(correlation_id, ApiVersionsResponse, deadline)
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        check(answer.error_code)
        self._conversation.learn_versions(answer.api_keys)

    def _authenticate(self, security: Security, deadline: Deadline) -> None:
        assert security.mechanism is not None
        handshake = SaslHandshakeRequest(security.mechanism)
        check_handshake(self.call(handshake, SaslHandshakeResponse, deadline), security.mechanism)
        conversation = security.conversation()
        message: bytes | None = conversation.first()
        while message is not None:
            answer = self.call(SaslAuthenticateRequest(message), SaslAuthenticateResponse, deadline)
            check_authenticated(answer)
            message = conversation.answer(bytes(answer.auth_bytes))

    def _send(self, frame: bytes, deadline: Deadline) -> None:
        remaining = memoryview(frame)
        try:
            while remaining:
                # Answers are read while a long request is written: a peer may stop reading until we have read.
                readable, writable = wait([self], [self], deadline.remaining_s())
                if readable:
                    self._read(deadline)
                if writable:
                    self._socket.setblocking(False)
                    remaining = remaining[self._write(remaining) :]
                elif not readable:
                    self.close()
                    raise RequestExpired(f"{self.address} did not take a request in time.")
        except (OSError, ValueError) as error:
            self.close()
            raise BrokerUnreachable(f"The connection to {self.address} broke: {_reason(error)}.") from None

    def _write(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0

    def _receive(self) -> list[Answer] | None:
        """The answers that have come as a whole; None at the end."""
        if isinstance(self._socket, ssl.SSLSocket):
            data = self._decrypted()
            return None if data == b"" else self._conversation.receive(data or b"")
        room = self._conversation.room()
        if room is None:
            data = self._socket.recv(RECEIVE_BYTES)
            return self._conversation.receive(data) if data else None
        count = self._socket.recv_into(room)
        return self._conversation.filled(count) if count else None

    def _decrypted(self) -> bytes | None:
        """What has come by TLS, empty at the end; None when there is no whole record yet."""
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            data = self._socket.recv(DECRYPTED_BYTES)
            # What is decrypted already no `select` would report.
            while waiting := self._socket.pending():
                data += self._socket.recv(waiting)
            return data
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def _readable(self) -> bool:
        return not self.closed and wait([self], [], 0)[0]

    def _read(self, deadline: Deadline) -> None:
        try:
            if not wait([self], [], deadline.remaining_s())[0]:
                raise RequestExpired(f"{self.address} did not answer in time.")
            answers = self._receive()
        except (OSError, ValueError, ProtocolError) as error:
            self.close()
            raise BrokerUnreachable(f"The connection to {self.address} broke: {_reason(error)}.") from None
        if answers is None:
            self.close()
            raise BrokerUnreachable(f"{self.address} closed the connection.")
        for answer in answers:
            self._keep(answer)

    def _keep(self, answer: Answer) -> None:
        if answer.correlation_id in self._abandoned:
            self._abandoned.discard(answer.correlation_id)
        else:
            self._answers[answer.correlation_id] = answer.response


def _reason(error: Exception) -> str:
    """The operating system's words, without its number."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:] or type(error).__name__
