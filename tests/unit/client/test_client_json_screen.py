"""JSON values that are bad at a look: none of them is one that Arrow's reader takes."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.client.typed.json_screen import JsonScreen
from tidelog.client.typed.json_values import JsonDecoder

TYPE: Final = pa.struct(
    [
        ("whole", pa.int64()),
        ("small", pa.int8()),
        ("part", pa.float64()),
        ("yes", pa.bool_()),
        ("some text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(12, 2)),
        ("many", pa.list_(pa.int32())),
        ("inner", pa.struct([("whole", pa.int32()), ("at", pa.timestamp("us"))])),
    ]
)
TIMES: Final = ("2026-11-16", "2026-11-16T10:00:00Z", "2026-11-16 10:00:00+01:00", "2026-11-16T10:00", "10:00", "now")
VALUES: Final = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.integers(-200, 200),
        st.floats(),
        st.text(max_size=4),
        st.sampled_from(TIMES),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["whole", "at", "x"]), inner),
    max_leaves=4,
)
OBJECTS: Final = st.dictionaries(st.sampled_from([*(field.name for field in TYPE), "other"]), VALUES, max_size=4)


def is_taken(text: bytes) -> bool:
    try:
        JsonDecoder(TYPE)._parsed(pa.array([text], pa.binary()))
    except pa.ArrowInvalid:
        return False
    return True


@pytest.mark.parametrize("text", [b'{"price": 0}', b'{"price": "1.50"}', b'{"price": null}', b'{"price": 1.5}', b"{}"])
def test_types_that_only_arrow_knows_are_left_to_it(text: bytes) -> None:
    assert not JsonScreen(TYPE).bad([text])
    assert is_taken(text)


@settings(max_examples=200, deadline=None)
@given(st.one_of(OBJECTS.map(lambda each: json.dumps(each).encode()), st.binary(max_size=20)))
def test_what_is_bad_at_a_look_arrow_takes_neither(text: bytes) -> None:
    if JsonScreen(TYPE).bad([text]):
        assert not is_taken(text)


@pytest.mark.parametrize(
    "text", [b'{"part": NaN}', b'{"other": Infinity}', *(json.dumps({"at": time}).encode() for time in TIMES[:4])]
)
def test_what_arrow_takes_beyond_json_is_left_to_it(text: bytes) -> None:
    assert is_taken(text)
    assert JsonScreen(TYPE).bad([text]) == {}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"whole": "one"}, "got `str` - at `$.whole`"),
        ({"whole": 1.5}, "got `float`"),
        ({"small": 300}, "<= 127"),
        ({"some text": 5}, "$.some text"),
        ({"at": "now"}, "Column(/at) has 'now', which is no time"),
        ({"inner": {"whole": []}}, "$.inner.whole"),
        ({"many": [1, "two"]}, "$.many["),
    ],
)
def test_a_topic_of_nothing_but_wrong_values_is_told_at_a_look(wrong: dict[str, Any], why: str) -> None:
    texts = [json.dumps(wrong).encode()] * 50
    decoder = JsonDecoder(TYPE)
    # Were any left, they would be tried one by one.
    decoder._parts = lambda packed, first, bad: [pa.nulls(0, TYPE)] if not len(packed) else pytest.fail("tried")  # type: ignore[method-assign]

    found = decoder.decode(pa.array(texts, pa.binary()))

    assert sorted(found.bad) == list(range(50))
    assert all(why in said for said in found.bad.values())
    assert found.values.null_count == 50
