"""ListTransactions: which transactional ids a filter lets through."""

from __future__ import annotations

import time

import pytest

from harness.transaction_desk import TransactionDesk
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.admin import describe, filter_of, list_
from tidelog.wire.messages.list_transactions import ListTransactionsRequest


def listed(desk: TransactionDesk, **wanted: object) -> dict[str, str]:
    """The ids that are listed, with their states."""
    found, _ = filter_of(ListTransactionsRequest(**wanted))  # type: ignore[arg-type]
    states = list_(desk.shard, found, desk.now_ms).reply
    return {state.transactional_id: state.transaction_state for state in states}


def test_a_pattern_is_for_the_whole_id_which_may_be_any_text() -> None:
    desk = TransactionDesk()
    for name in ("payments-1", "payments-2", "zahlungen-ü"):
        desk.start(name)

    assert set(listed(desk, transactional_id_pattern="payments-.")) == {"payments-1", "payments-2"}
    assert set(listed(desk, transactional_id_pattern="zahlungen-[^a-z]")) == {"zahlungen-ü"}
    assert listed(desk, transactional_id_pattern="payments") == {}


def test_a_pattern_that_makes_backtracking_hopeless_holds_nobody_up() -> None:
    desk = TransactionDesk()
    desk.start("a" * 1_000)
    before = time.perf_counter()

    assert listed(desk, transactional_id_pattern="(a|aa|a*)*b") == {}

    assert time.perf_counter() - before < 1


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(ProtocolError) as refused:
        filter_of(ListTransactionsRequest(transactional_id_pattern="("))
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_end_that_is_complete_is_shown_as_such_before_it_is_written_down() -> None:
    desk = TransactionDesk()
    who = desk.start("payments")
    desk.add(who, transactional_id="payments")
    desk.end(who, transactional_id="payments")
    assert desk.shard.completed

    assert listed(desk) == {"payments": "CompleteCommit"}
    described = describe(desk.shard, "payments").reply
    assert (described.transaction_state, described.topics) == ("CompleteCommit", [])
