"""Lives of producers and a broker, one for each seed: `run` lives one through and checks all that was promised."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from harness.transaction_broker import DATA_PARTITIONS, DATA_TOPIC
from harness.transaction_clients import TIMEOUT_MS, Program
from harness.transaction_history import History, Outcome, Reader, check_all_ended
from harness.transaction_two_phase import Outside, TwoPhaseProgram, check_nothing_in_doubt
from harness.transaction_world import CALM, START_MS, Faults, Violation, World
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

TRANSACTIONS = 6
BAD_MS = 2_000
# Later than anything that was sent while it was bad.
LATE_MS_MAX = 1_000
# After that everything that hangs has timed out, and everything that can be done is done.
CALM_MS = 20_000
IDS = 2
# One world in so many has a disk that takes its time, and loses power when a broker has just come back: all of them
# are worlds in which everything is synced before it is acknowledged.
SLOW_DISK = 12
SYNC_MS = 4
SLOW_SYNC_MS = 40


class Kind(Enum):
    """How a producer ends its transactions."""

    FIRST = "by the first protocol"
    SECOND = "by the second protocol"
    TWO_PHASE = "as somebody outside decides"


KINDS = (Kind.FIRST, Kind.SECOND, Kind.TWO_PHASE, Kind.SECOND, Kind.FIRST)


class Summary(NamedTuple):
    """What a life had in it."""

    committed: int
    aborted: int
    unknown: int
    crashes: int
    read: int


def name_of(number: int) -> str:
    return f"id-{number}"


def run(seed: int) -> Summary:
    """Live through one seed. Raises Violation."""
    try:
        return _Life(seed).live()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}") from violation


class _Life:
    def __init__(self, seed: int) -> None:
        self.history = History()
        # By its number: how the disk loses, which protocol, and how bad it gets.
        faults = Faults(
            loss=(0.0, 0.05, 0.15)[seed % 3],
            late=0.6,
            latency_ms_max=(1, 10)[seed % 2],
            crash_ms=(0, 500, 200)[seed // 3 % 3],
            full_disk_ms=300 if seed % 7 == 0 else 0,
            sync_ms_max=SLOW_SYNC_MS if seed % SLOW_DISK == 0 else SYNC_MS,
            power_follows=seed % SLOW_DISK == 0,
        )
        self.world = World(seed, faults, strict=seed % 4 == 0)
        self.kinds = [KINDS[seed // len(KINDS) ** number % len(KINDS)] for number in range(IDS)]
        self.outside = Outside()
        self.programs: list[Program] = []
        self.reader = Reader(self.history)

    def live(self) -> Summary:
        world = self.world
        for number in range(IDS):
            self._start(number, TRANSACTIONS)
        world.at(0, self._read)
        world.run(START_MS + BAD_MS)
        world.faults = CALM
        self._recover()
        world.run(START_MS + BAD_MS + CALM_MS)
        return self._judge()

    def _recover(self) -> None:
        """What was prepared stays until somebody comes back and ends it, here when nothing old can arrive any more."""
        two_phase = [number for number, kind in enumerate(self.kinds) if kind is Kind.TWO_PHASE]
        for program in self.programs:
            if isinstance(program, TwoPhaseProgram):
                program.kill()
        self.world.run(START_MS + BAD_MS + LATE_MS_MAX)
        for number in two_phase:
            self._start(number, 0)

    def _start(self, number: int, transactions: int) -> None:
        world, history, kind = self.world, self.history, self.kinds[number]
        program: Program
        if kind is Kind.TWO_PHASE:
            program = TwoPhaseProgram(world, history, name_of(number), transactions=transactions, outside=self.outside)
        else:
            program = Program(world, history, name_of(number), second=kind is Kind.SECOND, transactions=transactions)
        self.programs.append(program)
        program.start()
        self._watch(number, program)

    def _watch(self, number: int, program: Program) -> None:
        """Programs that ended too early are started again; at times one is killed, or replaced while it lives on."""
        dice = self.world.random

        def look() -> None:
            if self.world.faults is CALM:
                return
            if program.is_over:
                if program.left > 0:
                    self._start(number, program.left)
                return
            fate = dice.random()
            if fate < 0.03:
                program.kill()
                self._start(number, program.left)
            elif fate < 0.06:
                # It lives on as a zombie.
                self._start(number, program.left)
            else:
                self.world.at(30, look)

        self.world.at(30, look)

    def _read(self) -> None:
        if self.world.broker is not None:
            self.reader.poll(self.world.broker, self.world.random.randrange(DATA_PARTITIONS))
        if self.world.faults is not CALM:
            self.world.at(self.world.random.randint(1, 60), self._read)

    def _judge(self) -> Summary:
        broker = self.world.broker
        assert broker is not None
        check_nothing_in_doubt(self.outside)
        check_all_ended(broker)
        again = Reader(self.history)
        for partition in range(DATA_PARTITIONS):
            for reader in (self.reader, again):
                reader.poll(broker, partition)
        if again.values != self.reader.values:
            raise Violation("who reads everything once more reads something else")
        names = [name_of(number) for number in range(IDS)]
        self.history.check(self.reader.values, {name: self._offset(name) for name in names})
        outcomes = [attempt.outcome for attempt in self.history.attempts.values()]
        return Summary(
            outcomes.count(Outcome.COMMITTED),
            outcomes.count(Outcome.ABORTED),
            outcomes.count(Outcome.UNKNOWN),
            self.world.crashes,
            sum(map(len, self.reader.values.values())),
        )

    def _offset(self, group: str) -> int:
        asked = OffsetFetchRequestGroup(
            group, topics=[OffsetFetchRequestTopics(name=DATA_TOPIC, partition_indexes=[0])]
        )
        answers: list[object] = []
        assert self.world.broker is not None
        self.world.broker.handle(OffsetFetchRequest(groups=[asked], require_stable=True), 8, answers.append)
        (found,) = answers[0].groups[0].topics[0].partitions  # type: ignore[attr-defined]
        if found.error_code:
            raise Violation(f"the offset of {group} is {ErrorCode(found.error_code).name}")
        offset: int = found.committed_offset
        return offset


assert TIMEOUT_MS < CALM_MS
