"""The regular expressions that members subscribe with, and what they are told of one that is none."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.patterns import Pattern, compile_re2


def compile_pattern(text: str) -> Pattern:
    """A pattern, or INVALID_REGULAR_EXPRESSION with what is wrong in it."""
    try:
        return compile_re2(text)
    except ValueError as error:
        raise ProtocolError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}.",
        ) from None
