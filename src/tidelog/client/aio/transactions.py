"""Talks to the coordinators of a transactional producer: init, add partitions and offsets, commit, abort, two phases.

The producer's fronts call it, one step after the other; which step is legal, and what an error means, is decided in
`core/transaction.py`. A producer without a transactional id has one, too, that refuses every step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.client.aio.network import Network
from tidelog.client.aio.produce_engine import ProduceEngine
from tidelog.client.core.coordinators import COORDINATOR_MOVED, CoordinatorKind
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.identity import ProducerIdentity
from tidelog.client.core.metadata import Node
from tidelog.client.core.options import ProducerOptions
from tidelog.client.core.sending import TransactionGate
from tidelog.client.core.transaction import (
    IMPLICIT_ADD_LEVEL,
    TRANSACTION_FEATURE,
    GroupMetadata,
    OffsetsToCommit,
    PreparedTransaction,
    State,
    Transaction,
    meaning,
)
from tidelog.client.core.transaction_requests import (
    ADD_BY_CLIENT_VERSION,
    END_WITHOUT_EPOCH_VERSION,
    OFFSETS_AFTER_ADD_VERSION,
    add_partitions,
    commit_offsets,
    offsets_error,
    partitions_error,
)
from tidelog.client.errors import ClientError, IllegalTransactionState, Rejected, TransactionFailed, check
from tidelog.model.ids import ProducerEpoch, ProducerId, TopicPartition
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from tidelog.wire.schema import Request, Response

MILLISECONDS: Final = 1000.0
# A transaction without a time-out of its own, which two phases need.
NO_TIMEOUT_MS: Final = -1

R = TypeVar("R", bound=Response)
# Raises what an answer says went wrong.
Reader = Callable[[R], None]


class TransactionDriver:
    """The steps of a transaction."""

    def __init__(self, options: ProducerOptions, network: Network) -> None:
        self._options = options
        self._network = network
        self._transaction = None if options.transactional_id is None else Transaction(options.transactional_id)
        self._engine: ProduceEngine | None = None
        self._coordinators: dict[tuple[CoordinatorKind, str], Node] = {}
        # What the coordinator says was left prepared by an earlier producer of the same id.
        self._prepared: PreparedTransaction | None = None
        self._adding: asyncio.Task[None] | None = None
        self._to_add: set[TopicPartition] = set()
        self._timeout_s = options.max_block_ms / MILLISECONDS

    @property
    def gate(self) -> TransactionGate | None:
        """What the sender asks."""
        return self._transaction

    def attach(self, engine: ProduceEngine) -> None:
        self._engine = engine
        engine.on_add = self._add

    def check_send(self) -> None:
        """Raise unless a record may be handed over now."""
        if self._transaction is not None:
            self._transaction.check_send()

    async def init(self, keep_prepared: bool) -> PreparedTransaction | None:
        transaction = self._required()
        transaction.move(State.INITIALIZING)
        try:
            answer = await self._init_producer_id(keep_prepared)
        except ClientError as error:
            if transaction.state is State.INITIALIZING:
                transaction.move(State.DEAD if not error.retriable else State.NEW)
                transaction.error = error
            raise
        if keep_prepared and answer.ongoing_txn_producer_id >= 0:
            transaction.move(State.PREPARED)
            transaction.offsets_added = True  # The coordinator knows of it; what is in it is not known here.
            return PreparedTransaction(
                ProducerId(answer.ongoing_txn_producer_id), ProducerEpoch(answer.ongoing_txn_producer_epoch)
            )
        transaction.move(State.READY)
        return None

    def begin(self) -> None:
        self._required().begin()

    async def send_offsets(self, offsets: OffsetsToCommit, group: GroupMetadata | str) -> None:
        transaction = self._required()
        transaction.check_send()
        member = GroupMetadata(group) if isinstance(group, str) else group
        wanted = {
            place: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)  # type: ignore[arg-type]
            for place, offset in offsets.items()
        }
        if not wanted:
            return
        transaction.offsets_added = True
        try:
            if not transaction.implicit_add:
                await self._at_transaction_coordinator(
                    AddOffsetsToTxnRequest(self._id, self._identity.producer_id, self._identity.epoch, member.group_id),
                    AddOffsetsToTxnResponse,
                    lambda answer: check(answer.error_code),
                )
            request = commit_offsets(self._id, self._identity.producer_id, self._identity.epoch, member, wanted)
            at_most = None if transaction.implicit_add else OFFSETS_AFTER_ADD_VERSION
            await self._at_coordinator(
                CoordinatorKind.GROUP, member.group_id, request, TxnOffsetCommitResponse, offsets_error, at_most
            )
        except ClientError as error:
            transaction.failed(error)
            raise self._final(error) from error

    async def commit(self) -> None:
        transaction = self._required()
        transaction.check_commit()
        prepared = transaction.state is State.PREPARED
        if not prepared:
            await self._written()
        transaction.move(State.COMMITTING)
        await self._end(committed=True)

    async def abort(self) -> None:
        transaction = self._required()
        if transaction.state not in (State.OPEN, State.PREPARED, State.FAILED):
            raise transaction.refusal("There is no transaction to abort.")
        assert self._engine is not None
        transaction.move(State.ABORTING)
        if self._adding is not None:
            await asyncio.gather(self._adding, return_exceptions=True)
        await self._engine.settle(TransactionFailed("The transaction was aborted."))
        await self._end(committed=False)

    async def abort_quietly(self) -> None:
        """Abort if there is something to abort; a failure to do so does not hide the error that led here."""
        transaction = self._transaction
        if transaction is not None and transaction.state in (State.OPEN, State.PREPARED, State.FAILED):
            try:
                await self.abort()
            except ClientError:
                return  # The coordinator aborts when the time-out of the transaction has passed.

    async def prepare(self) -> PreparedTransaction:
        transaction = self._required()
        if not self._options.transaction_two_phase_commit_enable:
            raise IllegalTransactionState("prepare_transaction needs transaction_two_phase_commit_enable=True.")
        transaction.check_send()
        await self._written()
        transaction.move(State.PREPARED)
        return PreparedTransaction(self._identity.producer_id, self._identity.epoch)

    async def complete(self, prepared: PreparedTransaction) -> None:
        transaction = self._required()
        if transaction.state is not State.PREPARED:
            raise transaction.refusal("There is no prepared transaction to complete.")
        current = self._prepared or PreparedTransaction(self._identity.producer_id, self._identity.epoch)
        if prepared == current:
            await self.commit()
        else:
            await self.abort()

    @property
    def _id(self) -> str:
        assert self._options.transactional_id is not None
        return self._options.transactional_id

    @property
    def _identity(self) -> ProducerIdentity:
        assert self._engine is not None and self._engine.sender.identity is not None
        return self._engine.sender.identity

    def _required(self) -> Transaction:
        if self._transaction is None:
            raise IllegalTransactionState("The producer has no transactional_id.")
        return self._transaction

    async def _written(self) -> None:
        """Everything that was sent is in the logs, or the transaction has failed."""
        transaction = self._required()
        assert self._engine is not None
        await self._engine.flush()
        if transaction.error is not None:
            raise self._final(transaction.error)

    async def _end(self, committed: bool) -> None:
        transaction = self._required()
        failed = transaction.needs_epoch
        if transaction.is_started:
            request = EndTxnRequest(self._id, self._identity.producer_id, self._identity.epoch, committed)
            at_most = None if transaction.implicit_add else END_WITHOUT_EPOCH_VERSION
            try:
                answer = await self._at_transaction_coordinator(
                    request, EndTxnResponse, lambda answer: check(answer.error_code), at_most
                )
            except ClientError as error:
                transaction.state = State.COMMITTING if committed else State.OPEN
                transaction.failed(error)
                raise self._final(error) from error
            if answer.producer_id >= 0:
                # The coordinator begins a new epoch with each transaction (KIP-890).
                self._identity.begin(ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch))
                failed = False
        self._prepared = None
        if failed:
            # What was given up left gaps in the sequences: only a new epoch closes them (KIP-360).
            await self._init_producer_id(keep_prepared=False)
        transaction.move(State.READY)

    async def _init_producer_id(self, keep_prepared: bool) -> InitProducerIdResponse:
        two_phase = self._options.transaction_two_phase_commit_enable
        identity = self._identity
        request = InitProducerIdRequest(
            self._id,
            NO_TIMEOUT_MS if two_phase else self._options.transaction_timeout_ms,
            identity.producer_id,
            identity.epoch,
            two_phase,
            keep_prepared,
        )
        answer = await self._at_transaction_coordinator(
            request, InitProducerIdResponse, lambda answer: check(answer.error_code)
        )
        identity.begin(ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch))
        if answer.ongoing_txn_producer_id >= 0:
            self._prepared = PreparedTransaction(
                ProducerId(answer.ongoing_txn_producer_id), ProducerEpoch(answer.ongoing_txn_producer_epoch)
            )
        connection = await self._network.any_connection()
        level = connection.features.get(TRANSACTION_FEATURE, 0)
        self._required().implicit_add = level >= IMPLICIT_ADD_LEVEL
        return answer

    def _add(self, partitions: set[TopicPartition]) -> None:
        """The sender waits for partitions: tell the coordinator of them, all that came up together in one request."""
        transaction = self._required()
        if transaction.implicit_add or transaction.state not in (State.OPEN, State.COMMITTING):
            return
        self._to_add |= partitions
        if self._adding is None:
            self._adding = asyncio.get_running_loop().create_task(self._add_all())

    async def _add_all(self) -> None:
        transaction = self._required()
        assert self._engine is not None
        try:
            while self._to_add:
                wanted, self._to_add = self._to_add, set()
                request = add_partitions(self._id, self._identity.producer_id, self._identity.epoch, wanted)
                await self._at_transaction_coordinator(
                    request, AddPartitionsToTxnResponse, partitions_error, ADD_BY_CLIENT_VERSION
                )
                transaction.added |= wanted
        except ClientError as error:
            self._to_add.clear()
            transaction.failed(self._final(error))
            self._engine.fail_waiting(self._final(error))
        finally:
            self._adding = None
            self._engine.wake()

    async def _at_transaction_coordinator(
        self, request: Request, response: type[R], read: Reader[R], at_most: int | None = None
    ) -> R:
        return await self._at_coordinator(CoordinatorKind.TRANSACTION, self._id, request, response, read, at_most)

    async def _at_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Request,
        response: type[R],
        read: Reader[R],
        at_most: int | None = None,
    ) -> R:
        """Ask a coordinator, and again where it has moved or is not ready yet, until time is up."""

        async def attempt() -> R:
            node = self._coordinators.get((kind, key))
            if node is None:
                node = self._coordinators[kind, key] = await self._network.coordinator(kind, key)
            try:
                answer = await self._network.call(node, request, response, at_most=at_most)
                read(answer)
            except Rejected as error:
                if error.code in COORDINATOR_MOVED:
                    self._coordinators.pop((kind, key), None)
                raise meaning(error) from None
            except ClientError:
                self._coordinators.pop((kind, key), None)
                raise
            return answer

        return await self._network.retry(attempt, self._timeout_s)

    def _final(self, error: ClientError) -> ClientError:
        """What the caller of a step is told."""
        transaction = self._required()
        if transaction.state is State.DEAD:
            return transaction.error or error
        return TransactionFailed(f"The transaction failed and has to be aborted: {error}")
