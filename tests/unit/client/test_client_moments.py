"""Points in time as people write and read them."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidelog.client.moments import parse_duration, parse_moment, show_moment


def test_a_number_is_milliseconds_since_1970() -> None:
    assert parse_moment("1700000000123") == 1_700_000_000_123


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("-1ms", 1), ("-90s", 90_000), ("-1.5m", 90_000), ("-2h", 7_200_000), ("-1d", 86_400_000)]
)
def test_a_length_of_time_with_a_minus_is_that_long_ago(text: str, ago_ms: int) -> None:
    assert parse_moment(text, now_ms=10**12) == 10**12 - ago_ms


def test_a_time_with_a_zone_is_taken_as_it_is() -> None:
    assert parse_moment("2026-01-31T12:00:00.250+00:00") == 1_769_860_800_250


def test_a_time_without_a_zone_is_the_machine_s_own() -> None:
    assert parse_moment("2026-01-31T12:00") == int(datetime(2026, 1, 31, 12).timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "noon", "-5", "-5y", "2026-13-01", "٣"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="2026-01-31T12:00"):
        parse_moment(text)


def test_a_timestamp_is_shown_with_its_milliseconds() -> None:
    shown = show_moment(parse_moment("2026-01-31T12:00:00.007"))
    assert shown == "2026-01-31 12:00:00.007"
    assert show_moment(-1) == "-"
    assert show_moment(2**63 - 1) == str(2**63 - 1)


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("@-1h", 3_600_000), ("PT1H", 3_600_000), ("P1DT2H", 93_600_000), ("-PT1.5S", 1_500)]
)
def test_lengths_of_time_are_written_short_or_as_in_iso_8601(text: str, ago_ms: int) -> None:
    assert parse_moment(text, now_ms=10**12) == 10**12 - ago_ms


def test_an_at_sign_may_stand_before_any_time() -> None:
    assert parse_moment("@1700000000123") == 1_700_000_000_123
    assert parse_moment("@2026-01-31T12:00") == parse_moment("2026-01-31T12:00")


@pytest.mark.parametrize("text", ["", "P", "PT", "1", "1y", "-1h", "PT1D", "P1H"])
def test_what_is_no_length_of_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="PT1H30M"):
        parse_duration(text)
