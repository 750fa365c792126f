from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.consumer.patterns import compile_pattern
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.pattern_parser import STEPS_MAX
from tidelog.model.patterns import REMEMBERED_STATES_MAX


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("orders", ["orders"], ["order", "orders2", "xorders", ""]),
        ("orders.*", ["orders", "orders.eu", "orders-1"], ["my.orders"]),
        (r"orders\..+", ["orders.eu"], ["orders.", "orders_eu", "orders"]),
        ("a|b|cd", ["a", "b", "cd"], ["ab", "c", "d"]),
        ("(eu|us)-(orders|prices)", ["eu-orders", "us-prices"], ["eu-", "orders"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
        ("[^a-c]x", ["dx", "_x"], ["ax"]),
        (r"[]a]b", ["]b", "ab"], ["b"]),
        (r"[a\]]+", ["]a]"], ["b"]),
        (r"\d{2,3}", ["12", "123"], ["1", "1234"]),
        (r"\d{2}", ["12"], ["123"]),
        (r"\d{2,}", ["12", "123456"], ["1"]),
        (r"a{,2}", ["a{,2}"], ["aa"]),
        (r"\w+", ["a_1"], ["a-1"]),
        (r"\W", ["-", "."], ["a"]),
        ("[[:alpha:]]+", ["abc"], ["a1"]),
        ("[[:^digit:]]", ["a"], ["1"]),
        ("(?i)Orders", ["orders", "ORDERS"], ["order"]),
        ("(?i:o)rders", ["Orders"], ["oRders"]),
        ("(?i:o(?-i:R))", ["oR", "OR"], ["or"]),
        ("(?:ab)+?", ["abab"], ["aba"]),
        ("(?P<name>a)b", ["ab"], ["b"]),
        ("(?<name>a)b", ["ab"], ["b"]),
        ("^orders$", ["orders"], ["orders2"]),
        (r"\Aorders\z", ["orders"], []),
        ("a^b", [], ["ab"]),
        ("(^a|b)c", ["ac", "bc"], ["c"]),
        (r"\Qa.b\E+", ["a.b", "a.bbb"], ["aXb"]),
        (r"a\.b\-c", ["a.b-c"], ["aXb-c"]),
        (r"\x61\x{62}", ["ab"], []),
        ("", [""], ["a"]),
        ("(a*)*", ["", "aaa"], ["b"]),
        ("é|a", ["a"], ["b"]),
        (".*", ["", "anything"], []),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, names: list[str], others: list[str]) -> None:
    compiled = compile_pattern(pattern)

    assert [name for name in names if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[a", "[b-a]", "*a", "a**", "+", "a{3,2}", "a{1001}", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", r"\b"]
    + [r"\p{L}", "(?#x)", "(?P<1>a)", "a\\", "[[:nope:]]", r"\x{zz}", "(" * 300 + ")" * 300, "(a{1000}){1000}"],
)
def test_what_is_not_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        compile_pattern(pattern)

    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_makes_backtracking_hopeless_is_quick() -> None:
    compiled = compile_pattern("(a|aa|a*)*b")
    before = time.perf_counter()

    assert not compiled.matches("a" * 249)

    assert time.perf_counter() - before < 1


def test_a_pattern_that_is_too_large_is_refused_before_it_is_built() -> None:
    with pytest.raises(ProtocolError):
        compile_pattern("a" * (STEPS_MAX + 1))
    with pytest.raises(ProtocolError):
        compile_pattern("((a{100}){100}){100}")


def test_a_pattern_does_not_remember_without_bound() -> None:
    compiled = compile_pattern("(.*a.{12})?.*")
    for number in range(3 * REMEMBERED_STATES_MAX):
        compiled.matches(f"{number:b}".replace("0", "a"))

    assert len(compiled._next) <= REMEMBERED_STATES_MAX + 249


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\d", "1", "-"])


def _pattern(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}"])
    return st.one_of(
        st.lists(children, min_size=1, max_size=3).map("".join),
        st.lists(children, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(children, repeat).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


@given(
    pattern=st.recursive(ATOMS, _pattern, max_leaves=8),
    names=st.lists(st.text("ab1.-", max_size=6), max_size=10),
)
def test_patterns_match_what_python_matches(pattern: str, names: list[str]) -> None:
    expected = re.compile(pattern)

    compiled = compile_pattern(pattern)

    assert [compiled.matches(name) for name in names] == [expected.fullmatch(name) is not None for name in names]
