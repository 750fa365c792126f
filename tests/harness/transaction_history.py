"""What producers did, what readers of committed records saw, and whether the two agree.

Promises: nothing aborted is read; a transaction is read as a whole or not at all, with its offset; nothing is read
twice; nothing that was committed is lost; what was read stays; every transaction ends.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from harness.raw_client import fetch_request
from harness.transaction_broker import DATA_PARTITIONS, DATA_TOPIC, SimulatedBroker
from harness.transaction_world import Violation
from tidelog.model.errors import ErrorCode
from tidelog.transactions.states import AT_REST
from tidelog.wire.batch import iter_headers
from tidelog.wire.records import read_records

FETCH_VERSION = 12


class Outcome(Enum):
    """What the producer knows of a transaction's end."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    # It asked for a commit and has not heard what became of it: both is right, but not something in between.
    UNKNOWN = "unknown"


class Attempt:
    """One transaction as its producer sees it. Its number is its group offset and part of all its values."""

    def __init__(self, transactional_id: str, number: int) -> None:
        self.transactional_id = transactional_id
        self.number = number
        self.outcome = Outcome.OPEN
        # Partition to values that were acknowledged, in order.
        self.written: dict[int, list[str]] = {}
        self.has_offset = False

    def value(self, partition: int, position: int) -> str:
        return f"{self.number}/{partition}/{position}"

    def __repr__(self) -> str:
        return f"transaction {self.number} of {self.transactional_id} ({self.outcome.value}, {self.written})"


class History:
    def __init__(self) -> None:
        self.attempts: dict[int, Attempt] = {}

    def begin(self, transactional_id: str) -> Attempt:
        attempt = Attempt(transactional_id, len(self.attempts) + 1)
        self.attempts[attempt.number] = attempt
        return attempt

    def attempt_of(self, value: str) -> Attempt:
        return self.attempts[int(value.split("/")[0])]

    def check(self, read: dict[int, list[str]], offsets: dict[str, int]) -> None:
        """Hold what was read from each partition, and the last offset of each group, against what was done."""
        seen = {partition: _positions(values) for partition, values in read.items()}
        last_offset: dict[str, int] = {}
        for attempt in self.attempts.values():
            was_seen = self._check_attempt(attempt, seen)
            if was_seen and attempt.has_offset:
                last_offset[attempt.transactional_id] = attempt.number
        for transactional_id, offset in offsets.items():
            expected = last_offset.get(transactional_id, -1)
            if offset != expected and not self._has_only_an_offset(transactional_id, offset):
                raise Violation(f"the offset of {transactional_id} is {offset}, not {expected}: torn, lost or stale")

    def _has_only_an_offset(self, transactional_id: str, offset: int) -> bool:
        attempt = self.attempts.get(offset)
        return (
            attempt is not None
            and attempt.transactional_id == transactional_id
            and attempt.has_offset
            and not attempt.written
            and attempt.outcome in (Outcome.COMMITTED, Outcome.UNKNOWN)
        )

    def _check_attempt(self, attempt: Attempt, seen: dict[int, dict[str, int]]) -> bool:
        """Whether all of a transaction is there; raises when only some of it is, or all of it that should not be."""
        values = [(partition, value) for partition, values in attempt.written.items() for value in values]
        there = [value in seen[partition] for partition, value in values]
        strays = [
            value
            for partition, positions in seen.items()
            for value in positions
            if self.attempt_of(value) is attempt and value not in attempt.written.get(partition, ())
        ]
        if attempt.outcome in (Outcome.ABORTED, Outcome.OPEN):
            if any(there) or strays:
                raise Violation(f"an aborted transaction was read: {attempt}")
            return False
        if strays:
            raise Violation(f"{strays} of {attempt} were read, but never acknowledged")
        if any(there) and not all(there):
            raise Violation(f"a torn transaction was read: {attempt}: {there}")
        if attempt.outcome is Outcome.COMMITTED and not all(there):
            raise Violation(f"a committed transaction was lost: {attempt}")
        for partition, written in attempt.written.items():
            positions = [seen[partition][value] for value in written if value in seen[partition]]
            if positions != sorted(positions):
                raise Violation(f"records of {attempt} changed their order")
        return attempt.outcome is Outcome.COMMITTED or (bool(there) and all(there))


def _positions(values: list[str]) -> dict[str, int]:
    positions = {value: number for number, value in enumerate(values)}
    if len(positions) != len(values):
        twice = next(value for number, value in enumerate(values) if positions[value] != number)
        raise Violation(f"{twice} was read twice")
    return positions


class Reader:
    """A consumer of committed records that goes on and on; it drops what the broker tells it is aborted."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._offsets = dict.fromkeys(range(DATA_PARTITIONS), 0)
        self.values: dict[int, list[str]] = {partition: [] for partition in range(DATA_PARTITIONS)}

    def poll(self, broker: SimulatedBroker, partition: int) -> Any:
        """Read what there is; returns the broker's answer for the partition."""
        request = fetch_request(DATA_TOPIC, {partition: self._offsets[partition]}, isolation_level=1)
        answers: list[Any] = []
        broker.handle(request, FETCH_VERSION, answers.append)
        data = answers[0].responses[0].partitions[0]
        if data.error_code != ErrorCode.NONE:
            raise Violation(f"a reader was refused with {ErrorCode(data.error_code).name}")
        if data.records:
            self._take(partition, memoryview(data.records.read()), data.aborted_transactions)
        return data

    def _take(self, partition: int, view: memoryview, aborted: Any) -> None:
        starts: dict[int, list[int]] = {}
        for transaction in aborted or ():
            starts.setdefault(transaction.producer_id, []).append(transaction.first_offset)
        for offsets in starts.values():
            offsets.sort()
        dropping: set[int] = set()
        for position, header in iter_headers(view):
            waiting = starts.get(header.producer_id, [])
            if waiting and waiting[0] <= header.last_offset:
                waiting.pop(0)
                dropping.add(header.producer_id)
            if header.is_control:
                dropping.discard(header.producer_id)
            elif header.producer_id not in dropping and header.base_offset >= self._offsets[partition]:
                for record in read_records(view, position):
                    self._read(partition, (record.value or b"").decode())
            self._offsets[partition] = max(self._offsets[partition], header.next_offset)

    def _read(self, partition: int, value: str) -> None:
        attempt = self._history.attempt_of(value)
        if attempt.outcome is Outcome.ABORTED:
            raise Violation(f"an aborted transaction was read: {value} of {attempt}")
        self.values[partition].append(value)


def check_all_ended(broker: SimulatedBroker) -> None:
    """Nothing is open any more, anywhere."""
    for host in broker.transactions.hosts:
        for transactional_id, transaction in host.shard.transactions.items():
            if transaction.state not in AT_REST:
                raise Violation(f"the transaction of {transactional_id} is still {transaction.state.value}")
    for leader in broker.partitions:
        if leader.last_stable_offset != leader.high_watermark or leader.high_watermark != leader.log.end_offset:
            raise Violation(
                f"{leader} is stable up to {leader.last_stable_offset}, replicated to {leader.high_watermark}, "
                f"and ends at {leader.log.end_offset}: a transaction hangs"
            )
