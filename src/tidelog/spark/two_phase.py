"""Exactly once: tasks write in transactions and prepare, the driver decides, commits, and cleans up (KIP-939).

The rules, with their proof, are in docs/decisions/0020-exactly-once-into-topics-from-spark.md: only drivers end what a
task has prepared; who would end something looks at the decision after it has taken the transactional id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tidelog.client.admin import accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.transaction import PreparedTransaction
from tidelog.client.errors import ClientError, Rejected
from tidelog.client.groups import Groups
from tidelog.client.transactions import Transactions
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName, TopicPartition
from tidelog.spark.connecting import cluster_at
from tidelog.spark.decisions import GROUP_PREFIX, Decision, Part, Slot, decision_in, group_of, offsets_of
from tidelog.spark.errors import SinkFailed
from tidelog.spark.write_options import WriteOptions
from tidelog.spark.writing import producer_of, write_rows
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

# Transactional ids that one task of a batch tries at most: one is in use for each attempt that nobody cleaned up yet.
SLOTS_MAX: Final = 100
PROBE_ID: Final = "tidelog-sink-probe"
DRIVER_SUFFIX: Final = "driver"
# Of InitProducerId: from here on a transaction can be prepared and kept.
TWO_PHASE_VERSION: Final = 6
ONGOING: Final = "Ongoing"
NOTHING_DECIDED: Final = Decision(-1, ())


class SinkTransactions:
    """The transactions of one sink, as a task or the driver of one batch sees them."""

    def __init__(self, options: WriteOptions, sink_id: str) -> None:
        self._options = options
        self._sink_id = sink_id

    def write(self, task: int, batch_id: int, batches: Iterable[Any]) -> tuple[Part | None, list[str]]:
        """Task: write rows and prepare; None if the batch was decided before, or there were no rows."""
        rows = iter(batches)
        first = next((batch for batch in rows if batch.num_rows), None)
        if first is None:
            return None, []
        with self._free_slot(task) as (slot, producer):
            # Looked at after the id was taken: a task that comes late sees that its batch is decided, and stops.
            if self.is_decided(batch_id):
                return None, []
            producer.begin_transaction()
            try:
                written = write_rows(producer, _chained(first, rows), self._options)
                prepared = producer.prepare_transaction()
            except BaseException:
                _abort_quietly(producer)
                raise
            return Part(slot, prepared), sorted(written)

    def is_decided(self, batch_id: int) -> bool:
        decision = self.decision()
        return decision is not None and decision.batch_id >= batch_id

    def decision(self) -> Decision | None:
        """The newest decision of this sink."""
        return decision_in(self._decided_offsets())

    def commit(self, batch_id: int, parts: Sequence[Part], topics: Sequence[str]) -> None:
        """Driver: make a batch readable, once. A batch that is decided already is only completed."""
        decision = self.decision()
        if decision is None or decision.batch_id < batch_id:
            if not parts:
                self.clean(batch_id)
                return
            for part in parts:
                self._take_over(part)
            decision = self._decide(Decision(batch_id, tuple(parts)), TopicName(topics[0]))
        elif decision.batch_id == batch_id and parts and set(parts) != set(decision.parts):
            raise self._second(batch_id)
        for part in decision.parts:
            self._complete(part)
        self.clean(batch_id)

    def clean(self, batch_id: int) -> None:
        """Driver: abort what tasks left behind that failed, were killed or came second, unless a newer batch began."""
        pattern = re.escape(f"{GROUP_PREFIX}{self._sink_id}-") + r"(\d+)-(\d+)"
        with cluster_at(self._options.bootstrap_servers, self._options.protection) as cluster:
            open_ = Transactions(cluster).list_transactions(states=[ONGOING], id_pattern=pattern)
        for each in open_:
            named = re.fullmatch(pattern, each.transactional_id)
            if named is None:
                continue
            slot = Slot(int(named[1]), int(named[2]))
            with self._taken(each.transactional_id) as (producer, ongoing):
                # Looked at after the id was taken: what a driver decides from now on, it has to take from us before.
                decision = self.decision() or NOTHING_DECIDED
                if ongoing is None or decision.batch_id > batch_id or Part(slot, ongoing) in decision.parts:
                    continue
                producer.abort_transaction()

    def abort(self, batch_id: int, parts: Iterable[Part]) -> None:
        """Driver: the batch failed. What is decided stays."""
        for part in parts:
            with self._taken(part.slot.transactional_id(self._sink_id)) as (producer, ongoing):
                if ongoing == part.prepared and not self.is_decided(batch_id):
                    producer.abort_transaction()
        if not self.is_decided(batch_id):
            self.clean(batch_id)

    @contextmanager
    def _free_slot(self, task: int) -> Iterator[tuple[Slot, Producer]]:
        """The first transactional id of a task that holds no open transaction. Others are left to the driver."""
        for number in range(SLOTS_MAX):
            slot = Slot(task, number)
            with self._taken(slot.transactional_id(self._sink_id)) as (producer, ongoing):
                if ongoing is None:
                    yield slot, producer
                    return
        raise SinkFailed(f"Task {task} of sink '{self._sink_id}' left {SLOTS_MAX} transactions open: end them first.")

    @contextmanager
    def _taken(self, transactional_id: str) -> Iterator[tuple[Producer, PreparedTransaction | None]]:
        """A transactional id, taken from whoever had it, with the transaction that is open in it."""
        settings = {"transactional.id": transactional_id, "transaction.two.phase.commit.enable": "true"}
        with producer_of(self._options, **settings) as producer:
            yield producer, producer.init_transactions(keep_prepared=True)

    def _take_over(self, part: Part) -> None:
        """From now on only a driver can end it. Refuses if it is not what the task prepared: nothing is decided yet."""
        with self._taken(part.slot.transactional_id(self._sink_id)) as (_, ongoing):
            if ongoing != part.prepared:
                message = f"What task {part.slot.task} prepared for sink '{self._sink_id}' is not there any more"
                raise SinkFailed(f"{message} ({part.prepared}, found {ongoing}).")

    def _complete(self, part: Part) -> None:
        with self._taken(part.slot.transactional_id(self._sink_id)) as (producer, ongoing):
            # Not there any more: it was committed before. Only drivers end what is prepared, and they follow decisions.
            if ongoing == part.prepared:
                producer.complete_transaction(part.prepared)

    def _decided_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that hold the decision; while a driver is deciding, they are waited for."""
        with cluster_at(self._options.bootstrap_servers, self._options.protection) as cluster:
            deadline = cluster.deadline()
            while True:
                answers = Groups(cluster).offsets_of(group_of(self._sink_id), require_stable=True)
                if not any(map(_is_unstable, answers.values())):
                    return {place: accepted(answer) for place, answer in answers.items()}
                if not deadline.pause():
                    raise SinkFailed(f"Sink '{self._sink_id}' is being committed by another driver that does not end.")

    def _decide(self, decision: Decision, topic: TopicName) -> Decision:
        """The one moment that counts, in a transaction of the driver: of two drivers one is fenced before it ends."""
        settings = {"transactional.id": f"{GROUP_PREFIX}{self._sink_id}-{DRIVER_SUFFIX}"}
        with producer_of(self._options, **settings) as producer:
            producer.init_transactions()
            offsets = self._decided_offsets()
            if not offsets:
                # An offset that never was is not known to be moving: with one in place, nobody overlooks the next.
                self._write(producer, NOTHING_DECIDED, topic)
                offsets = self._decided_offsets()
            before = decision_in(offsets)
            if before is not None and before.batch_id >= decision.batch_id:
                raise self._second(decision.batch_id)
            self._write(producer, decision, next(iter(offsets)).topic)
        return decision

    def _write(self, producer: Producer, decision: Decision, topic: TopicName) -> None:
        offsets = offsets_of(decision, topic, len(producer.partitions_for(topic)))
        with producer.transaction():
            producer.send_offsets_to_transaction(offsets, group_of(self._sink_id))

    def _second(self, batch_id: int) -> SinkFailed:
        return SinkFailed(f"Batch {batch_id} of sink '{self._sink_id}' was committed by another driver.")


def can_prepare(options: WriteOptions) -> str | None:
    """None if the cluster has two-phase commit, else why not. Asks once for each process and cluster."""
    if options.bootstrap_servers not in _probed and not _serves_two_phases(options):
        _probed[options.bootstrap_servers] = "it does not speak KIP-939"
    if options.bootstrap_servers not in _probed:
        settings = {"transactional.id": PROBE_ID, "transaction.two.phase.commit.enable": "true"}
        try:
            with producer_of(options, **settings) as producer:
                producer.init_transactions(keep_prepared=True)
            _probed[options.bootstrap_servers] = None
        except Rejected as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
            _probed[options.bootstrap_servers] = "its setting transaction.two.phase.commit.enable is false"
        except ClientError as error:
            if error.retriable:
                raise
            _probed[options.bootstrap_servers] = str(error)
    return _probed[options.bootstrap_servers]


_probed: dict[str, str | None] = {}


def _serves_two_phases(options: WriteOptions) -> bool:
    with cluster_at(options.bootstrap_servers, options.protection) as cluster:
        served = cluster.any_connection(cluster.deadline()).served.get(InitProducerIdRequest.API_KEY)
    return served is not None and served.last >= TWO_PHASE_VERSION


def _is_unstable(answer: object) -> bool:
    return isinstance(answer, Rejected) and answer.code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _abort_quietly(producer: Producer) -> None:
    """The error that led here is the one to tell; what stays open is ended by the driver."""
    try:
        producer.abort_transaction()
    except ClientError:
        return
