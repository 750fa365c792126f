from __future__ import annotations

import pytest

from harness.logs import NOON_MS, batch_of
from tidelog.log.producers import Producers
from tidelog.log.verifications import Verifications
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import BatchHeader, read_header
from tidelog.wire.control import EndTransaction, build_end_transaction

ID = ProducerId(7)


def header_of(sequence: int, *, epoch: int = 0) -> BatchHeader:
    return read_header(batch_of([b"x"], producer=(ID, epoch, sequence), is_transactional=True))


def refused(verifications: Verifications, sequence: int, *, is_known: bool = False, epoch: int = 0) -> ErrorCode:
    with pytest.raises(ProtocolError) as error:
        verifications.check(header_of(sequence, epoch=epoch), is_known)
    return error.value.code


def agreed(verifications: Verifications, *sequences: int, starts_at_zero: bool = False) -> None:
    for sequence in sequences:
        verification = verifications.begin(ID, 0, sequence, starts_at_zero=starts_at_zero, now_ms=NOON_MS)
    assert verifications.agreed(ID, verification, ErrorCode.NONE)


def test_nothing_begins_before_the_coordinator_has_agreed() -> None:
    verifications = Verifications()
    assert refused(verifications, 0) is ErrorCode.INVALID_TXN_STATE
    verification = verifications.begin(ID, 0, 0, starts_at_zero=True, now_ms=NOON_MS)
    assert refused(verifications, 0) is ErrorCode.INVALID_TXN_STATE
    verifications.agreed(ID, verification, ErrorCode.NONE)
    verifications.check(header_of(0), False)
    assert refused(verifications, 0, epoch=1) is ErrorCode.INVALID_TXN_STATE, "it agreed to another epoch"


def test_what_the_coordinator_refused_is_refused() -> None:
    verifications = Verifications()
    verification = verifications.begin(ID, 0, 0, starts_at_zero=True, now_ms=NOON_MS)
    verifications.agreed(ID, verification, ErrorCode.INVALID_PRODUCER_EPOCH)

    assert refused(verifications, 0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_end_of_the_transaction_in_the_meantime_makes_the_agreement_worthless() -> None:
    verifications = Verifications()
    verification = verifications.begin(ID, 0, 0, starts_at_zero=True, now_ms=NOON_MS)
    verifications.end(ID)

    assert not verifications.agreed(ID, verification, ErrorCode.NONE)
    assert refused(verifications, 0) is ErrorCode.INVALID_TXN_STATE


def test_no_batch_of_an_unknown_producer_overtakes_an_earlier_one() -> None:
    verifications = Verifications()
    agreed(verifications, 5, 6)

    assert refused(verifications, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verifications.check(header_of(5), False)


def test_an_unknown_producer_of_the_second_protocol_begins_with_0() -> None:
    verifications = Verifications()
    agreed(verifications, 5, starts_at_zero=True)

    assert refused(verifications, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verifications.check(header_of(5), True)


def test_a_transaction_that_is_open_with_an_older_epoch_takes_no_batch_that_the_coordinator_has_not_agreed_to() -> None:
    """It was kept prepared for a producer that came back, which may only end it."""
    producers = Producers()
    producers.staged(header_of(0), Offset(0))
    producers.check_begin(header_of(1))

    with pytest.raises(ProtocolError) as error:
        producers.check_begin(header_of(0, epoch=1))
    assert error.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_late_duplicate_of_an_earlier_transaction_does_not_stop_a_producer_whose_sequence_is_right() -> None:
    """In the first protocol it has the same epoch, and its sequence is lower than that of any new batch."""
    producers = Producers()
    producers.staged(header_of(0), Offset(0))
    commit = EndTransaction(True, 0)
    marker = read_header(memoryview(build_end_transaction(commit, ID, ProducerEpoch(0), NOON_MS)))
    producers.staged_marker(marker, Offset(1), commit)

    agreed(producers.verifications, 0, 1)
    assert producers.check(header_of(1)) is None
    producers.check_begin(header_of(1))
    assert producers.check(header_of(0)) is not None, "and the late one is a duplicate"


@pytest.mark.parametrize("starts_at_zero", [False, True])
def test_a_marker_ends_what_wants_to_begin_with_an_older_epoch(starts_at_zero: bool) -> None:
    verifications = Verifications()
    agreed(verifications, 0, starts_at_zero=starts_at_zero)

    verifications.end_by_marker(ID, 1)

    assert refused(verifications, 0) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_the_first_protocol_ends_what_wants_to_begin_with_its_epoch() -> None:
    verifications = Verifications()
    agreed(verifications, 0)

    verifications.end_by_marker(ID, 0)

    assert refused(verifications, 0) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_that_is_written_again_does_not_stop_the_next_transaction_of_the_second_protocol() -> None:
    """Its coordinator has crashed and forgotten that the last one was complete; the producer has its new epoch."""
    verifications = Verifications()
    agreed(verifications, 0, starts_at_zero=True)

    verifications.end_by_marker(ID, 0)

    verifications.check(header_of(0), True)
