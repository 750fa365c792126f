"""The client's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, 7677) as conversations without I/O.

A connection sends what `first` gives, hands each answer to `answer`, and sends what that gives until it is None. The
nonce comes from outside.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, Protocol

from tidelog.client.errors import AuthenticationFailed

SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *SCRAM_HASHES)
# Fewer are not safe (RFC 5802 says 4096); more than this would keep a client busy on a stranger's word.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1_000_000


class SaslConversation(Protocol):
    """One authentication."""

    def first(self) -> bytes:
        """What to send first."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """What to send next; None when it is done. AuthenticationFailed for a server that cannot show who it is."""
        ...


class Plain:
    """User and password as they are: for encrypted connections."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """Both sides show that they know the password, and neither says it."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._final(challenge.decode())
        fields = _fields(challenge.decode())
        if "e" in fields:
            raise AuthenticationFailed(f"The broker refused the password: {fields['e']}.")
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._server_signature):
            raise AuthenticationFailed("The broker does not know the password: it may not be the one it seems.")
        return None

    def _final(self, server_first: str) -> bytes:
        fields = _fields(server_first)
        if "e" in fields:
            raise AuthenticationFailed(f"The broker refused to authenticate: {fields['e']}.")
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""))
        iterations = int(fields["i"]) if fields.get("i", "").isdigit() else 0
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt:
            raise AuthenticationFailed("The broker's challenge does not follow from what was sent.")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(f"The broker wants {iterations} iterations, which is too few or too many.")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c={b64encode(b'n,,').decode()},r={nonce}"
        signed = ",".join((self._first_bare, server_first, without_proof)).encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def conversation_of(mechanism: str, username: str, password: str, new_nonce: Callable[[], str]) -> SaslConversation:
    """A new authentication by a mechanism of `MECHANISMS`."""
    if mechanism == "PLAIN":
        return Plain(username, password)
    return Scram(mechanism, username, password, new_nonce())


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise AuthenticationFailed("The broker's challenge is no SCRAM.") from None
