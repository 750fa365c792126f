"""Topic names: each verdict and sentence is Apache Kafka 4.2's to the same name."""

from __future__ import annotations

import pytest

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.names import check_topic_name, collision_key, is_internal, may_collide


@pytest.mark.parametrize("name", ["a", "chat.messages", "A-b_c.9", "x" * 249, "-", "...", "__consumer_offsets"])
def test_letters_digits_dots_dashes_and_underscores_are_allowed(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a b", "contains one or more characters"),
        ("ä", "contains one or more characters"),
        ("a\n", "contains one or more characters"),
        ("a:b", "contains one or more characters"),
        ("٣", "contains one or more characters"),
        ("../../etc/passwd", "contains one or more characters"),
    ],
)
def test_other_names_are_refused_with_kafkas_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ProtocolError, match="Topic name is invalid: ") as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert sentence in str(refused.value)


def test_a_dot_and_an_underscore_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b-c")
    assert [may_collide(name) for name in ("a.b", "a_b", "a-b")] == [True, True, False]


def test_the_coordinators_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__consumer_offsets2")
