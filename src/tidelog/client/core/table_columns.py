"""Which columns of a table become the key, value, headers and time of records. Known without Arrow being loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class Auto(str):
    """The name of a column that counts where the table has it."""

    __slots__ = ()


AUTO_KEY: Final = Auto("key")
AUTO_VALUE: Final = Auto("value")
AUTO_HEADERS: Final = Auto("headers")
AUTO_TIMESTAMP: Final = Auto("timestamp")


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Names of columns. None: the records have none of it; an `Auto` name counts only where the table has it."""

    key: str | None = AUTO_KEY
    value: str | None = AUTO_VALUE
    headers: str | None = AUTO_HEADERS
    timestamp: str | None = AUTO_TIMESTAMP
    # A number for all rows, or the name of a column; None: by the key.
    partition: int | str | None = None
