"""Failures as sentences: what users can cause or mend is explained, what is our own fault is not hidden."""

from __future__ import annotations

from tidelog.model.errors import ProtocolError


def explain(error: Exception) -> str | None:
    """A sentence for a failure that users can cause or mend; None for one that is our own fault."""
    from tidelog.client.errors import ClientError

    if isinstance(error, ClientError | ProtocolError | BadInput):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}."
    return None


class BadInput(Exception):
    """What a user gave, in a file or on standard input, that cannot be used; the text says why."""
