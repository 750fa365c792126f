"""The orders of the demo, and the check that Spark counted each of them once."""

from __future__ import annotations

import json
from random import Random

from tidelog.cli.demo_orders import PRICES_CENTS, WINDOW_MS, Check, Revenue, any_order


def told(until_ms: int, orders: int, product: str = "rope") -> Revenue:
    return Revenue(product, "12:00:05", until_ms, orders, orders, 1.0)


def test_an_order_is_json_whose_amount_is_quantity_times_price() -> None:
    orders = [json.loads(any_order(Random(seed)).value()) for seed in range(200)]
    assert {order["product"] for order in orders} == set(PRICES_CENTS)
    for order in orders:
        assert round(order["amount"] * 100) == order["quantity"] * PRICES_CENTS[order["product"]]


def test_revenue_is_read_from_json_and_what_others_wrote_is_left_out() -> None:
    text = b'{"product":"rope","until":"12:00:05","until_ms":5000,"orders":2,"pieces":3,"revenue":38.25}'
    assert Revenue.parse(text) == Revenue("rope", "12:00:05", 5000, 2, 3, 38.25)
    assert Revenue.parse(b"hello") is None and Revenue.parse(b'{"product":"rope"}') is None


def test_a_result_agrees_when_spark_saw_as_many_orders_of_the_window_as_the_demo_itself() -> None:
    check = Check()
    for timestamp_ms in (WINDOW_MS, WINDOW_MS + 1, 2 * WINDOW_MS - 1, 2 * WINDOW_MS):
        check.count("rope", timestamp_ms)
    assert check.compare(told(WINDOW_MS, 7)) is None
    assert check.compare(told(2 * WINDOW_MS, 3)) is True
    assert check.compare(told(3 * WINDOW_MS, 2)) is False
    assert (check.equal, check.different) == (1, 1)


def test_the_window_in_which_spark_began_is_not_judged() -> None:
    check = Check()
    for product in ("rope", "chart"):
        check.count(product, WINDOW_MS)
    assert check.compare(told(2 * WINDOW_MS, 0)) is None
    assert check.compare(told(2 * WINDOW_MS, 0, "chart")) is None
    assert (check.equal, check.different) == (0, 0)
