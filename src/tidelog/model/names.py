"""Which names a topic may have, and which two topics would share the name of a metric."""

from __future__ import annotations

import re
from typing import Final

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import TopicName

# A partition's folder is "<topic>-<partition>", and a name of a file may have 255 bytes.
TOPIC_NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC: Final = TopicName("__cluster_metadata")


def check_topic_name(name: str) -> TopicName:
    """Accept a name for a new topic, or raise INVALID_TOPIC_EXCEPTION."""
    problem = _problem(name)
    if problem is not None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    return TopicName(name)


def _problem(name: str) -> str | None:
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        limit = TOPIC_NAME_LENGTH_MAX
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {limit}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Topics with the same key collide: metrics write "." as "_", so only one of "a.b" and "a_b" may exist."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """True for names that another name could collide with."""
    return "." in name or "_" in name


def is_internal(name: str) -> bool:
    """True for topics that brokers keep for themselves; clients hide them."""
    return name in INTERNAL_TOPICS
