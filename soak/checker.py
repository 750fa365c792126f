"""Does a history keep the promises of a replicated log? A pure function over events; `python -m soak check` runs it.

The truth is what readers of the whole log found at the end, when all was at rest. Against it is held what producers
were told and what consumers saw meanwhile. The checker knows nothing of brokers or faults. An hour of history is tens
of millions of events: they are kept as pairs of numbers, and looked at partition by partition.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from soak.history import Acked, Event, Failed, Name, Place, Seen, Sent, Whole

# A record in one number: which producer, and which of its records.
NUMBER_BITS: Final = 40
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1


class Violation(Enum):
    """The promises that can be broken."""

    LOST = "an acknowledged record is not in the log"
    MISPLACED = "an acknowledged record is not where its producer was told"
    DUPLICATE = "a record is in the log more than once"
    DISORDER = "records of one producer are not in the order in which it sent them"
    DISAGREEMENT = "two readers saw different records at one offset"
    VANISHED = "a consumer saw a record that the log does not hold"
    SKIPPED = "a consumer was not given a record that lies between two that it saw"
    BACKWARDS = "a consumer was given an offset again, or an earlier one"
    INVENTED = "there is a record that nobody sent"
    UNREAD = "nobody read the whole of a partition, so nothing can be said of it"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise and where."""

    violation: Violation
    place: Place
    detail: str

    def __str__(self) -> str:
        return f"{self.place}: {self.violation.value}: {self.detail}"


@dataclass(slots=True)
class Verdict:
    """What was found, and how much was looked at."""

    findings: list[Finding] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    seen: int = 0
    in_the_log: int = 0

    def counted(self) -> Counter[Violation]:
        return Counter(finding.violation for finding in self.findings)


class _Producers:
    """The producers of a history, by the number that stands for each."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}
        self._names: list[str] = []

    def pack(self, producer: str, number: int) -> int:
        index = self._indexes.get(producer)
        if index is None:
            index = self._indexes[producer] = len(self._names)
            self._names.append(producer)
        return index << NUMBER_BITS | number

    def name(self, packed: int) -> Name:
        return Name(self._names[packed >> NUMBER_BITS], packed & NUMBER_MASK)


class _Records:
    """Offsets, and the records that were seen or acknowledged there, in the order of the history."""

    __slots__ = ("_offsets", "_packed")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._packed = array("q")

    def add(self, offset: int, packed: int) -> None:
        self._offsets.append(offset)
        self._packed.append(packed)

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._offsets, self._packed, strict=True)


@dataclass(slots=True)
class _Partition:
    """What was said of one partition."""

    acked: _Records = field(default_factory=_Records)
    seen: defaultdict[str, _Records] = field(default_factory=lambda: defaultdict(_Records))
    whole: dict[str, tuple[int, int]] = field(default_factory=dict)


def check(history: Iterable[Event]) -> Verdict:
    """Every broken promise of a history. Events of one client are in its order; clients among each other are not."""
    verdict = Verdict()
    producers = _Producers()
    sent: dict[str, int] = {}
    highest: dict[str, int] = {}
    partitions: defaultdict[Place, _Partition] = defaultdict(_Partition)
    for event in history:
        match event:
            case Sent(producer, number, untold):
                sent[producer] = max(number, sent.get(producer, -1))
                highest[producer] = max(number + untold, highest.get(producer, -1))
            case Acked(topic, partition, offset, producer, number):
                verdict.acknowledged += 1
                partitions[Place(topic, partition)].acked.add(offset, producers.pack(producer, number))
            case Seen(consumer, topic, partition, offset, producer, number):
                verdict.seen += 1
                partitions[Place(topic, partition)].seen[consumer].add(offset, producers.pack(producer, number))
            case Whole(consumer, topic, partition, begin, end):
                partitions[Place(topic, partition)].whole[consumer] = (begin, end)
            case Failed():
                verdict.failed += 1
    verdict.sent = sum(number + 1 for number in sent.values())
    for place in sorted(partitions):
        # What has been looked at is forgotten.
        found = _Check(place, partitions.pop(place), producers, highest)
        found.all()
        verdict.findings += found.findings
        verdict.in_the_log += len(found.log)
    return verdict


class _Check:
    """The checks of one partition."""

    def __init__(self, place: Place, partition: _Partition, producers: _Producers, highest: dict[str, int]) -> None:
        self.place = place
        self.partition = partition
        self.name = producers.name
        self.highest = highest
        self.log: dict[int, int] = {}
        self.findings: list[Finding] = []

    def all(self) -> None:
        if not self.partition.whole:
            self._found(Violation.UNREAD, f"{len(self.partition.acked)} records were acknowledged")
            return
        self._read_the_log()
        self._once_and_in_order()
        self._acknowledged()
        for consumer, records in self.partition.seen.items():
            self._consumed(consumer, records)

    def _found(self, violation: Violation, detail: str) -> None:
        self.findings.append(Finding(violation, self.place, detail))

    def _read_the_log(self) -> None:
        """The log as its readers found it; all of them must have found the same."""
        for reader in self.partition.whole:
            for offset, record in self.partition.seen[reader]:
                there = self.log.setdefault(offset, record)
                if there != record:
                    names = f"{self.name(there)} or {self.name(record)}"
                    self._found(Violation.DISAGREEMENT, f"{names} at offset {offset}, says {reader}")

    def _once_and_in_order(self) -> None:
        last: dict[str, int] = {}
        met: dict[int, int] = {}
        for offset in sorted(self.log):
            record = self.log[offset]
            name = self.name(record)
            if name.number > self.highest.get(name.producer, -1):
                self._found(Violation.INVENTED, f"{name} at offset {offset}")
            if record in met:
                self._found(Violation.DUPLICATE, f"{name} at offsets {met[record]} and {offset}")
            elif name.number < last.get(name.producer, -1):
                self._found(Violation.DISORDER, f"{name} at offset {offset} comes after {last[name.producer]}")
            met.setdefault(record, offset)
            last[name.producer] = max(name.number, last.get(name.producer, -1))

    @property
    def _begin(self) -> int:
        """Where the log begins: what retention has deleted is neither lost nor vanished."""
        return min(begin for begin, _ in self.partition.whole.values())

    def _acknowledged(self) -> None:
        held = set(self.log.values())
        begin = self._begin
        for offset, record in self.partition.acked:
            there = self.log.get(offset)
            if offset < begin or there == record:
                continue
            said = f"{self.name(record)}, acknowledged at offset {offset}"
            if record not in held:
                self._found(Violation.LOST, said)
            else:
                where = "nothing" if there is None else self.name(there)
                self._found(Violation.MISPLACED, f"{said}, where {where} is")

    def _consumed(self, consumer: str, records: _Records) -> None:
        begin = self._begin
        before = None
        for offset, record in records:
            there = self.log.get(offset)
            if offset >= begin and there is None:
                self._found(Violation.VANISHED, f"{self.name(record)} at offset {offset}, seen by {consumer}")
            elif offset >= begin and there != record and consumer not in self.partition.whole:
                assert there is not None
                self._found(
                    Violation.DISAGREEMENT,
                    f"{consumer} saw {self.name(record)} at offset {offset}, where {self.name(there)} is now",
                )
            if before is not None and offset <= before:
                self._found(Violation.BACKWARDS, f"{consumer} was given {offset} after {before}")
            elif before is not None and offset > before + 1:
                missed = [between for between in range(before + 1, offset) if between in self.log]
                if missed:
                    self._found(
                        Violation.SKIPPED, f"{consumer} was given {offset} after {before}, without {missed[:5]}"
                    )
            before = offset
