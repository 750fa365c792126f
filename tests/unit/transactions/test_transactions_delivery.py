"""The delivery of markers: what each answer means, and when all is done."""

from __future__ import annotations

import pytest

from harness.transaction_desk import partition, producer
from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.transactions.calls import Ending
from tidelog.transactions.delivery import RETRY_LONGEST_MS, Delivery


def delivery(*indexes: int) -> Delivery:
    partitions = frozenset(partition(index) for index in indexes)
    return Delivery(Ending("id", producer(1, 0), True, partitions, 0, 2))


def test_it_is_done_when_every_partition_has_its_marker() -> None:
    sent = delivery(0, 1)
    sent.answered({partition(0): ErrorCode.NONE})
    assert not sent.is_done
    sent.answered({partition(1): ErrorCode.NONE})
    assert sent.is_done


def test_a_transaction_without_partitions_is_done_at_once() -> None:
    assert delivery().is_done


@pytest.mark.parametrize("error", sorted(RETRIABLE - {ErrorCode.NONE}))
def test_what_may_pass_is_tried_again(error: ErrorCode) -> None:
    sent = delivery(0)
    sent.answered({partition(0): error})
    assert sent.missing == {partition(0)} and not sent.fenced


def test_an_error_that_nobody_expects_is_tried_again_rather_than_forgotten() -> None:
    sent = delivery(0)
    sent.answered({partition(0): ErrorCode.UNKNOWN_SERVER_ERROR})
    assert sent.missing == {partition(0)}


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    sent = delivery(0, 1)
    sent.deleted(partition(0))
    sent.answered({partition(1): ErrorCode.NONE})
    assert sent.is_done


def test_a_partition_in_which_the_producer_has_gone_on_has_nothing_left_to_end() -> None:
    sent = delivery(0, 1)
    sent.answered({partition(0): ErrorCode.INVALID_PRODUCER_EPOCH, partition(1): ErrorCode.NONE})
    assert sent.is_done
    assert sent.gone_on == {partition(0)}


def test_by_the_first_protocol_nobody_goes_on_before_the_markers_are_known_to_be_written() -> None:
    sent = Delivery(Ending("id", producer(1, 0), True, frozenset({partition(0)}), 0, 0))
    sent.answered({partition(0): ErrorCode.INVALID_PRODUCER_EPOCH})
    assert sent.is_done and not sent.gone_on


def test_a_newer_coordinator_stops_this_one() -> None:
    sent = delivery(0)
    sent.answered({partition(0): ErrorCode.TRANSACTION_COORDINATOR_FENCED})
    assert sent.fenced and not sent.is_done


def test_retries_come_ever_more_slowly_up_to_a_bound() -> None:
    sent = delivery(0)
    waits = [sent.next_retry_ms() for _ in range(10)]
    assert waits == sorted(waits) and waits[0] < 50
    assert waits[-1] == RETRY_LONGEST_MS
