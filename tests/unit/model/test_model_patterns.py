"""Patterns over names that are not ASCII: transactional ids may be any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.patterns import compile_re2


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        (".", ["é", "潮", "😀"], ["éé", ""]),
        ("caf.-\\d", ["café-1"], ["caf-1"]),
        ("café", ["café"], ["cafe", "cafè"]),
        ("[éa]+", ["éaé"], ["è", ""]),
        ("[^é]", ["e", "è", "潮"], ["é"]),
        ("[^a]", ["é"], ["a"]),
        (r"\W\D\S", ["潮潮潮"], ["a1 "]),
        ("[[:^alpha:]]", ["潮"], ["a"]),
        ("(?i)É", ["é", "É"], ["e"]),
        ("(?i)ß", ["ß"], ["s"]),
        (r"\x{e9}", ["é"], ["e"]),
        (r"[\x{0}-\x{10ffff}]+", ["aé潮"], [""]),
    ],
)
def test_characters_beyond_ascii_are_characters(pattern: str, names: list[str], others: list[str]) -> None:
    compiled = compile_re2(pattern)

    assert [name for name in names if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize("pattern", ["[à-ü]", r"\x{110000}", r"[a-\x{ff}]", r"\pL"])
def test_what_would_need_to_know_all_of_unicode_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        compile_re2(pattern)


PIECES = st.sampled_from(["a", "é", "潮", ".", "[aé]", "[^aé]", "(a|é)", "[^a]", "(?:é.)"])
REPEATED = st.builds(str.__add__, PIECES, st.sampled_from(["", "*", "+", "?", "{1,2}"]))


@given(st.lists(REPEATED, max_size=5).map("".join), st.lists(st.text("aeéè潮x", max_size=6), min_size=1))
def test_patterns_match_what_python_matches_beyond_ascii_too(pattern: str, names: list[str]) -> None:
    compiled, pythons = compile_re2(pattern), re.compile(pattern)

    assert [compiled.matches(name) for name in names] == [pythons.fullmatch(name) is not None for name in names]
