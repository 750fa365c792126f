"""Does a history keep the promises of a replicated log? A pure function over events; `python -m soak check` runs it.

The truth is what readers of the whole log found at the end, when all was at rest. Against it is held what producers
were told and what consumers saw meanwhile. The checker knows nothing of brokers or faults.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from soak.history import Acked, Event, Failed, Name, Place, Seen, Sent, Whole


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


@dataclass(slots=True)
class _Partition:
    """What was said of one partition."""

    acked: list[tuple[int, Name]] = field(default_factory=list)
    seen: defaultdict[str, list[tuple[int, Name]]] = field(default_factory=lambda: defaultdict(list))
    whole: dict[str, tuple[int, int]] = field(default_factory=dict)


def check(history: Iterable[Event]) -> Verdict:
    """Every broken promise of a history. Events of one client are in its order; clients among each other are not."""
    verdict = Verdict()
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
                partitions[Place(topic, partition)].acked.append((offset, Name(producer, number)))
            case Seen(consumer, topic, partition, offset, producer, number):
                verdict.seen += 1
                partitions[Place(topic, partition)].seen[consumer].append((offset, Name(producer, number)))
            case Whole(consumer, topic, partition, begin, end):
                partitions[Place(topic, partition)].whole[consumer] = (begin, end)
            case Failed():
                verdict.failed += 1
    verdict.sent = sum(number + 1 for number in sent.values())
    for place in sorted(partitions):
        found = _Check(place, partitions[place], highest)
        found.all()
        verdict.findings += found.findings
        verdict.in_the_log += len(found.log)
    return verdict


class _Check:
    """The checks of one partition."""

    def __init__(self, place: Place, partition: _Partition, highest: dict[str, int]) -> None:
        self.place = place
        self.partition = partition
        self.highest = highest
        self.log: dict[int, Name] = {}
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
            for offset, name in self.partition.seen[reader]:
                if self.log.setdefault(offset, name) != name:
                    self._found(
                        Violation.DISAGREEMENT, f"{self.log[offset]} or {name} at offset {offset}, says {reader}"
                    )

    def _once_and_in_order(self) -> None:
        last: dict[str, int] = {}
        met: dict[Name, int] = {}
        for offset in sorted(self.log):
            name = self.log[offset]
            if name.number > self.highest.get(name.producer, -1):
                self._found(Violation.INVENTED, f"{name} at offset {offset}")
            if name in met:
                self._found(Violation.DUPLICATE, f"{name} at offsets {met[name]} and {offset}")
            elif name.number < last.get(name.producer, -1):
                self._found(Violation.DISORDER, f"{name} at offset {offset} comes after {last[name.producer]}")
            met.setdefault(name, offset)
            last[name.producer] = max(name.number, last.get(name.producer, -1))

    def _acknowledged(self) -> None:
        held = set(self.log.values())
        # What retention has deleted is not lost.
        first = min(begin for begin, _ in self.partition.whole.values())
        for offset, name in self.partition.acked:
            if offset < first:
                continue
            if name not in held:
                self._found(Violation.LOST, f"{name}, acknowledged at offset {offset}")
            elif self.log.get(offset) != name:
                there = self.log.get(offset, "nothing")
                self._found(Violation.MISPLACED, f"{name}, acknowledged at offset {offset}, where {there} is")

    def _consumed(self, consumer: str, records: list[tuple[int, Name]]) -> None:
        first = min(begin for begin, _ in self.partition.whole.values())
        before = None
        for offset, name in records:
            if offset >= first:
                there = self.log.get(offset)
                if there is None:
                    self._found(Violation.VANISHED, f"{name} at offset {offset}, seen by {consumer}")
                elif there != name and consumer not in self.partition.whole:
                    # Held the log something else then, or something else now? A reader was told what is not so.
                    self._found(
                        Violation.DISAGREEMENT, f"{consumer} saw {name} at offset {offset}, where {there} is now"
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
