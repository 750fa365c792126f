"""Errors as Apache Kafka's own tools print them, for scripts that look for the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.model.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.client.errors import Rejected

_PACKAGE: Final = "org.apache.kafka.common.errors"

# Error code -> class of the exception, its usual message.
_ERRORS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    ErrorCode.UNKNOWN_MEMBER_ID: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "GroupAuthorizationException",
        "Not authorized to access group: Group authorization failed.",
    ),
}


def java_message(error: Rejected) -> str:
    """The message alone, in the words of Kafka where we know them."""
    return _ERRORS[error.code][1] if error.code in _ERRORS else str(error)


def java_error(error: Rejected, message: str | None = None) -> str:
    """Class and message."""
    name = _ERRORS[error.code][0] if error.code in _ERRORS else error.code.name
    return f"{_PACKAGE}.{name}: {message or java_message(error)}"
