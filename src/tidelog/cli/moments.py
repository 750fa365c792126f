"""Points in time as people write and read them; Kafka counts milliseconds since 1970."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO: Final = re.compile(r"-(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse_moment(text: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970 of "2026-01-31T12:00", of "1700000000000", or of "-15m" before now; else ValueError.

    A time without a zone is the machine's own.
    """
    ago = _AGO.fullmatch(text)
    if ago:
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return now_ms - int(float(ago[1]) * UNIT_MS[ago[2]])
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
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
