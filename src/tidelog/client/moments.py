"""Points in time as people write and read them; Kafka counts milliseconds since 1970."""

from __future__ import annotations

import contextlib
import re
import time
from datetime import UTC, datetime
from typing import Final

UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
# ISO 8601, as Kafka's commands take it. Months and years are not of one length.
_ISO: Final = re.compile(
    r"P(?!$)(?:(\d+)W)?(?:(\d+)D)?(?:T(?!$)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")


def parse_duration(text: str) -> int:
    """Milliseconds of "15m", "1.5h" or "PT1H30M"; else ValueError."""
    short = _SHORT.fullmatch(text)
    if short:
        return int(float(short[1]) * UNIT_MS[short[2]])
    iso = _ISO.fullmatch(text)
    if iso:
        return sum(
            int(float(part) * UNIT_MS[unit]) for part, unit in zip(iso.groups(), _ISO_UNITS, strict=True) if part
        )
    raise ValueError(f"'{text}' is no duration: write 15m, 1.5h, 7d or PT1H30M.")


def parse_moment(text: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970 of "2026-01-31T12:00", of "1700000000000", or of "-15m" or "PT15M" before now.

    An "@" may stand in front. A time without a zone is the machine's own. ValueError for anything else.
    """
    plain = text.removeprefix("@")
    if plain.startswith(("-", "P", "p")):
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        with contextlib.suppress(ValueError):
            return now_ms - parse_duration(plain.removeprefix("-"))
    if plain.isascii() and plain.isdigit():
        return int(plain)
    try:
        return int(datetime.fromisoformat(plain).astimezone().timestamp() * 1000)
    except ValueError:
        raise ValueError(
            f"'{text}' is no time: write 2026-01-31T12:00, milliseconds since 1970, or -15m for 15 minutes ago."
        ) from None


def show_moment(timestamp_ms: int) -> str:
    """A timestamp in the machine's time zone; "-" where there is none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"
