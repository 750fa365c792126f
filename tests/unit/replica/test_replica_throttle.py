from __future__ import annotations

import pytest

from tidelog.model.ids import NodeId, PartitionIndex
from tidelog.replica.throttle import Throttle, is_throttled


def test_what_was_spent_is_paid_back_at_the_rate() -> None:
    now = [1_000_000]
    throttle = Throttle(lambda: now[0])
    throttle.spend(10**9)
    assert not throttle.is_exceeded, "without a rate nothing is too much"
    throttle.bytes_per_second = 1000
    throttle.spend(1000)
    assert not throttle.is_exceeded, "a second that nobody used"
    throttle.spend(5000)
    assert throttle.is_exceeded
    now[0] += 4999
    assert throttle.is_exceeded
    now[0] += 1
    assert not throttle.is_exceeded


def test_over_time_the_rate_is_kept() -> None:
    now = [0]
    throttle = Throttle(lambda: now[0])
    throttle.bytes_per_second = 10_000
    sent = 0
    for _ in range(6000):
        now[0] += 10
        if not throttle.is_exceeded:
            throttle.spend(3000)
            sent += 3000
    assert sent == pytest.approx(60 * 10_000, rel=0.05)


@pytest.mark.parametrize(
    ("listed", "throttled"), [((), False), (("*",), True), (("0:2", "3:1"), True), (("3:2", "0:1"), False)]
)
def test_replicas_are_named_by_partition_and_broker_or_all_at_once(listed: tuple[str, ...], throttled: bool) -> None:
    assert is_throttled(listed, PartitionIndex(3), NodeId(1)) is throttled
