"""The made-up shop of `tidelog demo`: what an order looks like, and the check that Spark counted each of them once.

`demo_stream.py` writes and reads the orders, `demo_pipeline.py` the revenue that Spark makes of them. Pure: chance
comes from outside.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from tidelog.model.ids import TopicName

ORDERS: Final = TopicName("demo-orders")
REVENUE: Final = TopicName("demo-revenue")
WINDOW_SECONDS: Final = 5
WINDOW_MS: Final = WINDOW_SECONDS * 1000
PRICES_CENTS: Final = {
    "anchor": 18_900,
    "chart": 2_450,
    "compass": 5_990,
    "kettle": 3_200,
    "lantern": 4_550,
    "oilskin": 8_900,
    "rope": 1_275,
}
# How often each of them is bought.
WEIGHTS: Final = (1, 6, 3, 5, 4, 2, 8)
REGIONS: Final = ("north", "east", "south", "west")
QUANTITY_MAX: Final = 4
ORDER_NUMBERS: Final = 10_000_000
# Windows that are remembered until Spark has told of them: some minutes.
WINDOWS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Order:
    """Somebody bought something."""

    number: int
    product: str
    region: str
    quantity: int
    cents: int

    def value(self) -> bytes:
        fields = {
            "order": self.number,
            "product": self.product,
            "region": self.region,
            "quantity": self.quantity,
            "amount": self.cents / 100,
        }
        return json.dumps(fields).encode()


@dataclass(frozen=True, slots=True)
class Revenue:
    """What Spark tells of a product and a window."""

    product: str
    until: str
    until_ms: int
    orders: int
    pieces: int
    revenue: float

    @classmethod
    def parse(cls, value: bytes) -> Revenue | None:
        """None for what somebody else wrote into the topic."""
        try:
            return cls(**json.loads(value))
        except (TypeError, ValueError):
            return None


def any_order(chance: Random) -> Order:
    product = chance.choices(list(PRICES_CENTS), WEIGHTS)[0]
    quantity = chance.randint(1, QUANTITY_MAX)
    number = chance.randrange(ORDER_NUMBERS)
    return Order(number, product, chance.choice(REGIONS), quantity, quantity * PRICES_CENTS[product])


class Check:
    """Counts the orders of each product and window as the demo itself reads them, and compares what Spark says.

    One thread counts, another compares.
    """

    def __init__(self) -> None:
        self.equal = 0
        self.different = 0
        self._turn = threading.Lock()
        self._counted: dict[int, Counter[str]] = {}
        self._first_ms: int | None = None

    def count(self, product: str, timestamp_ms: int) -> None:
        until_ms = timestamp_ms - timestamp_ms % WINDOW_MS + WINDOW_MS
        with self._turn:
            if until_ms not in self._counted:
                self._counted[until_ms] = Counter()
                while len(self._counted) > WINDOWS_MAX:
                    del self._counted[min(self._counted)]
            self._counted[until_ms][product] += 1

    def compare(self, told: Revenue) -> bool | None:
        """Whether Spark counted as we did; None for the window in which it began, of which it saw only the end."""
        with self._turn:
            if self._first_ms is None:
                self._first_ms = told.until_ms
            counted = self._counted.get(told.until_ms)
            if told.until_ms <= self._first_ms or counted is None:
                return None
            is_equal = counted[told.product] == told.orders
            self.equal += is_equal
            self.different += not is_equal
            return is_equal
