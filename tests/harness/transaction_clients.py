"""Transactional producers as programs: they retry what gets no answer, die, hang, and come back as zombies.

A program is a generator that yields requests and gets answers, so that it reads like the code of a client. What it does
follows the rules of Kafka's clients in the first or the second protocol of transactions; what it may be told, and when,
is checked here: a refusal without a cause is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from harness.transaction_broker import DATA_PARTITIONS, DATA_TOPIC
from harness.transaction_history import Attempt, History, Outcome
from harness.transaction_world import REQUEST_TIMEOUT_MS, Ask, Violation, World
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.records import Record, build_batch

TRIES_MAX = 40
BACKOFF_MS = 20
TIMEOUT_MS = 700
PIPELINED_MAX = 3

AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)

Life = Generator[list[Ask], list[Any], Any]


class Ended(Exception):
    """The program ends: fenced, out of patience, or killed."""


class Program:
    """One run of a producer's program. A transactional id may have several at once: all but the last are zombies."""

    def __init__(
        self, world: World, history: History, transactional_id: str, *, second: bool, transactions: int
    ) -> None:
        self.world = world
        self.history = history
        self.transactional_id = transactional_id
        self.second = second
        self.connection = 0
        self.is_over = False
        self.left = transactions
        self.producer_id = self.epoch = -1
        self.sequences = [0] * DATA_PARTITIONS
        self.attempt: Attempt | None = None
        self._began_ms = 0
        self._inits_at_answer = 0
        self._answers: dict[int, Any] = {}
        self._asked: list[Ask] = []
        self._life = self.live()

    def start(self) -> None:
        self.world.at(0, lambda: self._go_on(None))

    def kill(self) -> None:
        self.is_over = True
        self.connection += 1

    # What it does

    def live(self) -> Life:
        yield from self.init()
        while self.left > 0:
            yield from self.transaction()

    def init(self) -> Life:
        answer = yield from self.ask(
            lambda: InitProducerIdRequest(self.transactional_id, TIMEOUT_MS), 5, lambda it: it.error_code
        )
        self._take(answer)

    def bump(self) -> Life:
        """A client of the first protocol takes a new epoch after an abort, to start from sequence 0 again."""
        has = (self.producer_id, self.epoch)
        request = lambda: InitProducerIdRequest(self.transactional_id, TIMEOUT_MS, *has)  # noqa: E731
        self._take((yield from self.ask(request, 4, lambda it: it.error_code)))

    def transaction(self) -> Life:
        dice = self.world.random
        attempt = self.attempt = self.history.begin(self.transactional_id)
        self._began_ms = self.world.now_ms
        for partition in dice.sample(range(DATA_PARTITIONS), dice.randint(0, DATA_PARTITIONS)):
            yield from self.write(attempt, partition, dice.randint(1, PIPELINED_MAX))
        if dice.random() < 0.5 or not attempt.written:
            yield from self.commit_offset(attempt)
        if dice.random() < 0.1:
            yield from self.hang(dice.randint(10, 2 * TIMEOUT_MS))
        yield from self.finish(attempt, commit=dice.random() < 0.7)
        if attempt.outcome is Outcome.COMMITTED and attempt.has_offset:
            yield from self.check_offset(attempt)
        self.left -= 1

    def write(self, attempt: Attempt, partition: int, batches: int) -> Life:
        if not self.second:
            yield from self.ask(self._adding(partition), 3, _added_code)
        values = [
            [attempt.value(partition, 2 * number), attempt.value(partition, 2 * number + 1)]
            for number in range(batches)
        ]
        first = self.sequences[partition]
        missing = list(range(batches))
        for _ in range(TRIES_MAX):
            answers = yield [
                Ask(self._producing(partition, values[number], first + 2 * number), 12 if self.second else 11)
                for number in missing
            ]
            missing = self._missing_of(missing, answers)
            if not missing:
                self.sequences[partition] += 2 * batches
                attempt.written[partition] = [value for batch in values for value in batch]
                return
            yield from self.pause()
        raise Ended

    def _missing_of(self, sent: list[int], answers: list[Any]) -> list[int]:
        """Which of several batches are not in the log. Only one that overtakes another may be called out of order."""
        missing = []
        for number, answer in zip(sent, answers, strict=True):
            code = None if answer is None else ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not missing:
                raise Violation(f"{self.transactional_id} was told of a gap in its sequence that is none")
            is_again = code in (None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.KAFKA_STORAGE_ERROR)
            if is_again or code is None or not self._is_done(code):
                missing.append(number)
        return missing

    def commit_offset(self, attempt: Attempt) -> Life:
        group, pair = self.transactional_id, (self.producer_id, self.epoch)
        if not self.second:
            adding = lambda: AddOffsetsToTxnRequest(group, *pair, group)  # noqa: E731
            yield from self.ask(adding, 3, lambda it: it.error_code, may_be_late=False)

        def request() -> Any:
            made = TxnOffsetCommitRequest(group, group, *pair)
            made.topics = [
                TxnOffsetCommitRequestTopic(DATA_TOPIC, [TxnOffsetCommitRequestPartition(0, attempt.number)])
            ]
            return made

        yield from self.ask(
            request,
            5 if self.second else 4,
            lambda it: it.topics[0].partitions[0].error_code,
            # Nothing in the first protocol tells a late one from one of the next transaction.
            may_be_late=self.second,
        )
        attempt.has_offset = True

    def finish(self, attempt: Attempt, *, commit: bool) -> Life:
        yield from self.end(attempt, commit=commit)

    def end(self, attempt: Attempt, *, commit: bool) -> Life:
        """Commit or abort. Until it is answered, both may have happened to what was to be committed."""
        attempt.outcome = Outcome.UNKNOWN if commit else Outcome.ABORTED
        pair = (self.producer_id, self.epoch)
        answer = yield from self.ask(
            lambda: EndTxnRequest(self.transactional_id, *pair, commit),
            5 if self.second else 4,
            lambda it: it.error_code,
            # The first protocol cannot tell a late end from that of the next transaction.
            may_be_late=self.second,
        )
        if commit:
            attempt.outcome = Outcome.COMMITTED
        if self.second:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences = [0] * DATA_PARTITIONS
        elif not commit and self.world.random.random() < 0.5:
            yield from self.bump()

    def check_offset(self, attempt: Attempt) -> Life:
        """A commit that was answered counts for whoever asks from now on, stable or not."""
        asked = OffsetFetchRequestGroup(
            self.transactional_id, topics=[OffsetFetchRequestTopics(name=DATA_TOPIC, partition_indexes=[0])]
        )
        answer = yield from self.ask(
            lambda: OffsetFetchRequest(groups=[asked]), 8, lambda it: it.groups[0].error_code, fences=False
        )
        offset = answer.groups[0].topics[0].partitions[0].committed_offset
        if offset < attempt.number:
            raise Violation(f"after the commit of {attempt} the group's offset is still {offset}")

    # How it asks

    def ask(
        self,
        make: Callable[[], Any],
        version: int,
        code_of: Callable[[Any], int],
        *,
        may_be_late: bool = True,
        fences: bool = True,
    ) -> Generator[list[Ask], list[Any], Any]:
        """Ask until there is an answer that counts."""
        for _ in range(TRIES_MAX):
            (answer,) = yield [Ask(make, version, may_be_late)]
            if answer is not None and self._is_done(ErrorCode(code_of(answer))):
                return answer
            yield from self.pause()
        raise Ended

    def pause(self) -> Life:
        yield from self.hang(self.world.random.randint(1, BACKOFF_MS))

    def hang(self, milliseconds: int) -> Life:
        until_ms = self.world.now_ms + milliseconds
        while self.world.now_ms < until_ms:
            yield []

    def _is_done(self, code: ErrorCode) -> bool:
        if code is ErrorCode.NONE:
            return True
        if code in AGAIN:
            return False
        if code in FENCED:
            if not self.has_been_replaced() and not self.may_have_timed_out():
                raise Violation(f"{self.transactional_id} was refused with {code.name} without a cause")
            raise Ended
        raise Violation(f"{self.transactional_id} was refused with {code.name}")

    def has_been_replaced(self) -> bool:
        return self.world.inits.get(self.transactional_id, 0) > self._inits_at_answer

    def may_have_timed_out(self) -> bool:
        return self.world.now_ms - self._began_ms >= TIMEOUT_MS

    def _take(self, answer: Any) -> None:
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences = [0] * DATA_PARTITIONS
        self._inits_at_answer = self._inits_seen

    def _adding(self, partition: int) -> Callable[[], Any]:
        pair = (self.producer_id, self.epoch)

        def make() -> Any:
            request = AddPartitionsToTxnRequest()
            request.v3_and_below_transactional_id = self.transactional_id
            request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = pair
            request.v3_and_below_topics = [AddPartitionsToTxnTopic(DATA_TOPIC, [partition])]
            return request

        return make

    def _producing(self, partition: int, values: list[str], sequence: int) -> Callable[[], Any]:
        batch = build_batch(
            [Record(number, self.world.now_ms, None, value.encode()) for number, value in enumerate(values)],
            producer_id=self.producer_id,  # type: ignore[arg-type]
            producer_epoch=self.epoch,  # type: ignore[arg-type]
            base_sequence=sequence,
            is_transactional=True,
        )

        def make() -> Any:
            data = [TopicProduceData(DATA_TOPIC, partition_data=[PartitionProduceData(partition, batch)])]
            return ProduceRequest(self.transactional_id, -1, 1_000, data)

        return make

    # How the world drives it

    def answered(self, connection: int, number: int, response: Any, inits_seen: int) -> None:
        self._answers[number] = response
        if inits_seen:
            self._inits_seen = inits_seen
        if len(self._answers) == len(self._asked):
            self._go_on([self._answers[each] for each in range(len(self._asked))])

    def _timed_out(self, connection: int) -> None:
        if self.connection == connection and self._asked:
            self._go_on([self._answers.get(number) for number in range(len(self._asked))])

    def _go_on(self, answers: list[Any] | None) -> None:
        if self.is_over:
            return
        try:
            asked = next(self._life) if answers is None else self._life.send(answers)
        except (StopIteration, Ended):
            self.kill()
            return
        # A new exchange: answers to what was asked before mean nothing any more.
        self.connection += 1
        self._asked, self._answers = asked, {}
        connection = self.connection
        if asked:
            self.world.send(self, asked)
            self.world.at(REQUEST_TIMEOUT_MS, lambda: self._timed_out(connection))
        else:
            self.world.at(BACKOFF_MS, lambda: self.connection == connection and self._go_on([]))


def _added_code(answer: Any) -> int:
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code
