"""How the connections of a client are protected: TLS and who it says it is. Made once from its settings.

Both kinds of connection use it: `aio/connection.py` and `connection.py`. Without settings nothing is done.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.client.core.java_security import security_settings
from tidelog.client.core.options import AdminOptions, ClientOptions, read_options
from tidelog.client.core.sasl import SaslConversation, conversation_of
from tidelog.client.errors import AuthenticationFailed, InvalidOption, code_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeResponse

NONCE_BYTES: Final = 18


@dataclass(frozen=True, slots=True)
class Security:
    """TLS if there is a context, SASL if there is a mechanism."""

    context: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)

    def conversation(self) -> SaslConversation:
        assert self.mechanism is not None
        return conversation_of(self.mechanism, self.username, self.password, lambda: secrets.token_urlsafe(NONCE_BYTES))


NO_SECURITY: Final = Security()


def security_of(options: ClientOptions) -> Security:
    """What settings say; InvalidOption for files that cannot be read."""
    return Security(
        _context(options) if options.uses_tls else None,
        options.sasl_mechanism if options.uses_sasl else None,
        options.sasl_username or "",
        options.sasl_password or "",
    )


def security_in(properties: Mapping[str, Any]) -> Security:
    """What the properties of any client say, by Kafka's names; the rest of them is not looked at."""
    protecting = security_settings(properties)
    return security_of(read_options(AdminOptions, "any:1", protecting)) if protecting else NO_SECURITY


def check_handshake(answer: SaslHandshakeResponse, mechanism: str) -> None:
    """AuthenticationFailed unless the broker knows the mechanism."""
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationFailed(f"The broker does not offer {mechanism}, but {offered}.")


def check_authenticated(answer: SaslAuthenticateResponse) -> None:
    """AuthenticationFailed unless the broker accepts what was sent."""
    if answer.error_code:
        code = code_of(answer.error_code)
        reason = answer.error_message or code.name
        if code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            reason = f"{code.name}: {reason}"
        raise AuthenticationFailed(f"The broker refused the credentials: {reason}")


def _context(options: ClientOptions) -> ssl.SSLContext:
    if options.ssl_context is not None:
        if not isinstance(options.ssl_context, ssl.SSLContext):
            raise InvalidOption("ssl_context has to be an ssl.SSLContext.")
        return options.ssl_context
    try:
        context = ssl.create_default_context(cafile=options.ssl_cafile, cadata=options.ssl_cadata)
        if options.ssl_certfile is not None:
            context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, options.ssl_password)
        elif options.ssl_certdata is not None:
            _load_own(context, options)
    except (OSError, ValueError) as error:
        given = (options.ssl_cafile, options.ssl_certfile, options.ssl_keyfile)
        files = ", ".join(file for file in given if file is not None) or "the settings"
        raise InvalidOption(f"The certificates cannot be read as PEM from {files}: {error}") from None
    context.check_hostname = options.ssl_check_hostname
    return context


def _load_own(context: ssl.SSLContext, options: ClientOptions) -> None:
    """A certificate and its key as text: Python takes them from a file only, so there is one for a moment."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{options.ssl_keydata}\n{options.ssl_certdata}\n")
        file.flush()
        context.load_cert_chain(file.name, password=options.ssl_password)
