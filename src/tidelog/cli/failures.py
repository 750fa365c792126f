"""Failures as sentences: what users can cause or mend is explained, what is our own fault is not hidden."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tidelog.model.errors import ProtocolError


class BadInput(Exception):
    """What a user gave, in a file or on standard input, that cannot be used; the text says why."""


@contextlib.contextmanager
def naming_topic(name: str) -> Iterator[None]:
    """Say which topic does not exist, where a broker only says that one does not."""
    from tidelog.client.errors import Rejected
    from tidelog.model.errors import ErrorCode

    try:
        yield
    except Rejected as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise BadInput(f"Topic '{name}' does not exist.") from None


def explain(error: Exception) -> str | None:
    """A sentence for a failure that users can cause or mend; None for one that is our own fault."""
    from tidelog.client.errors import ClientError

    if isinstance(error, ClientError | ProtocolError | BadInput):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}."
    return None
