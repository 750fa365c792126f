"""Does what the producer's core decides: sends its requests, looks up leaders and ids, keeps its time.

One turn after everything that happened: ask the core what to send, send it, sleep until the next thing is due. Runs in
one event loop; only `lines` is shared with another thread, under `lock`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from tidelog.client.aio.connection import Connection
from tidelog.client.aio.network import Network
from tidelog.client.core.leader_hints import follow_hints, hints_for_producer
from tidelog.client.core.lines import Lines
from tidelog.client.core.options import ACKS_NONE, ProducerOptions
from tidelog.client.core.pending import Batch, is_finished
from tidelog.client.core.sending import Plan, Sender, ToSend, TransactionGate
from tidelog.client.errors import ClientClosed, ClientError, Rejected, check
from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.model.ids import ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import ProduceResponse

MILLISECONDS: Final = 1000.0
# An answer is waited for a little longer than the broker may take.
GRACE_S: Final = 1.0

log = logging.getLogger("tidelog.client")


class ProduceEngine:
    """The producer's side of the network."""

    def __init__(
        self,
        options: ProducerOptions,
        network: Network,
        lock: AbstractContextManager[Any],
        on_room: Callable[[], None],
        transaction: TransactionGate | None = None,
    ) -> None:
        self.network = network
        self.lines = Lines(min(options.batch_size, options.max_request_size))
        self.sender = Sender(options, self.lines, self._settled, transaction)
        # Told which partitions a transaction has to add before they may be written to.
        self.on_add: Callable[[set[TopicPartition]], None] | None = None
        self._options = options
        self._lock = lock
        self._on_room = on_room
        self._loop = asyncio.get_running_loop()
        self._ended: list[Batch] = []
        self._flushes = 0
        self._pressed = False
        self._waiters: list[asyncio.Future[None]] = []
        self._turn_due: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stale: set[TopicName] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._closed = False

    def wake(self) -> None:
        """Something changed: take a turn soon."""
        if self._turn_due is None and not self._closed:
            self._turn_due = self._loop.call_soon(self._turn)

    def press(self) -> None:
        """Somebody waits for room: send what is there without lingering."""
        self._pressed = True
        self.wake()

    async def flush(self) -> None:
        """Send all that was handed over and wait until the end of each record is known."""
        with self._lock:
            self.lines.close_open()
            batches = list(self.lines.all())
        await self._until_finished(batches, flushing=True)

    async def settle(self, error: ClientError) -> None:
        """Send nothing more that waits, and wait until the end of what is on its way is known."""
        with self._lock:
            batches = list(self.lines.all())
            self.sender.fail_all(error)
        self._report()
        await self._until_finished(batches, flushing=False)

    def fail_waiting(self, error: ClientError) -> None:
        """Nothing that waits will be sent."""
        with self._lock:
            self.sender.fail_all(error)
        self._report()

    def drop(self, batches: list[Batch], error: ClientError) -> None:
        """Let batches go that no broker has heard of. The lock is held by the caller, who calls `report` after it."""
        for batch in batches:
            self.lines.settled(batch)
            batch.settle(error)
            self._ended.append(batch)

    def report(self) -> None:
        """Tell everyone whose records have come to an end."""
        self._report()

    async def close(self) -> None:
        """Stop; what is not settled fails."""
        self._closed = True
        for handle in (self._turn_due, self._timer):
            if handle is not None:
                handle.cancel()
        tasks = [*self._tasks.values(), *self._sending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with self._lock:
            for batch in self.lines.all():
                self.lines.settled(batch)
                batch.settle(ClientClosed("The producer was closed before the record was acknowledged."))
                self._ended.append(batch)
        self._report()

    def look_up(self, topics: set[TopicName]) -> None:
        """Ask for the leaders of topics, soon and until they are known."""
        self._stale |= topics
        self._task("metadata", self._refresh)

    async def _until_finished(self, batches: list[Batch], flushing: bool) -> None:
        self._flushes += flushing
        try:
            while not all(map(is_finished, batches)):
                waiter: asyncio.Future[None] = self._loop.create_future()
                self._waiters.append(waiter)
                self.wake()
                await waiter
        finally:
            self._flushes -= flushing

    def _turn(self) -> None:
        self._turn_due = None
        with self._lock:
            plan = self.sender.requests(self.network.view, self._loop.time(), self._pressed or self._flushes > 0)
        self._pressed = False
        self._report()
        for sent in plan.requests:
            self._send(sent)
        if plan.unknown:
            self.look_up(plan.unknown)
        elif self.network.view.topics and self.network.age_s * MILLISECONDS > self._options.metadata_max_age_ms:
            self.look_up(set(self.network.view.topics))
        if plan.needs_identity and self._options.transactional_id is None:
            self._task("identity", self._identify)
        if plan.to_add and self.on_add is not None:
            self.on_add(plan.to_add)
        self._sleep(plan)

    def _sleep(self, plan: Plan) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if plan.wake_at is not None:
            self._timer = self._loop.call_at(plan.wake_at, self.wake)

    def _send(self, sent: ToSend) -> None:
        connection = self.network.existing(sent.node)
        if connection is None:
            task = self._loop.create_task(self._connect_and_send(sent))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        else:
            self._send_on(connection, sent)

    async def _connect_and_send(self, sent: ToSend) -> None:
        try:
            connection = await self.network.connection(sent.node)
        except ClientError as error:
            self._conclude(self.sender.lost, sent, error)
            return
        self._send_on(connection, sent)

    def _send_on(self, connection: Connection, sent: ToSend) -> None:
        try:
            if self._options.acks == ACKS_NONE:
                connection.tell(sent.request, sent.version_max)
                self._conclude(self.sender.answered, sent, None)
                return
            timeout_s = self._options.request_timeout_ms / MILLISECONDS + GRACE_S
            future = connection.ask(sent.request, timeout_s, sent.version_max)
        except ClientError as error:
            self._conclude(self.sender.lost, sent, error)
            return
        future.add_done_callback(partial(self._answered, sent))

    def _answered(self, sent: ToSend, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            self._conclude(self.sender.lost, sent, ClientClosed("The producer was closed."))
            return
        error = future.exception()
        if error is None:
            self._conclude(self.sender.answered, sent, future.result())
            if future.result().node_endpoints:
                self._follow_hints(sent, future.result())
        else:
            assert isinstance(error, ClientError), error
            self._conclude(self.sender.lost, sent, error)

    def _follow_hints(self, sent: ToSend, answer: ProduceResponse) -> None:
        """Another broker leads, and we were told which: what was refused goes there at once."""
        hints = hints_for_producer(answer, {topic.id: name for name, topic in sent.topics.items()})
        self.network.view, moved = follow_hints(self.network.view, hints, answer.node_endpoints)
        with self._lock:
            for batch in sent.batches:
                if batch.partition in moved:
                    batch.retry_at = self._loop.time()
        self.wake()

    def _conclude(self, conclude: Callable[[ToSend, Any, float], set[TopicName]], sent: ToSend, result: Any) -> None:
        with self._lock:
            stale = conclude(sent, result, self._loop.time())
        self._report()
        if stale:
            self.look_up(stale)
        self.wake()

    def _settled(self, batch: Batch) -> None:
        self._ended.append(batch)

    def _report(self) -> None:
        if not self._ended:
            return
        ended, self._ended = self._ended, []
        for batch in ended:
            batch.tell(_log_failure)
        self._on_room()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _task(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin work that is done at most once at a time."""
        if name in self._tasks or self._closed:
            return
        task = self._loop.create_task(work())
        self._tasks[name] = task

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.pop(name, None)
            self.wake()

        task.add_done_callback(ended)

    async def _refresh(self) -> None:
        """Ask until all leaders are known; a topic that the cluster will never have fails its records."""
        backoff_s = self.network.backoff_s
        while self._stale:
            wanted = set(self._stale)
            try:
                view = await self.network.refresh(wanted, create=self._options.allow_auto_create_topics)
            except ClientError as error:
                log.debug("metadata of %s: %s", sorted(wanted), error)
            else:
                for name in wanted:
                    topic = view.topics[name]
                    if not topic.error and all(partition.leader in view.nodes for partition in topic.partitions):
                        self._stale.discard(name)
                    elif topic.error and topic.error not in RETRIABLE:
                        self._stale.discard(name)
                        with self._lock:
                            self.sender.unknown_topic(name, Rejected(topic.error))
                        self._report()
                self.wake()
            if self._stale:
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, self._options.retry_backoff_max_ms / MILLISECONDS)
                with self._lock:
                    # What nobody waits for any more is not asked for.
                    self._stale &= {partition.topic for partition in self.lines.active}

    async def _identify(self) -> None:
        """Get an id for an idempotent producer from any broker."""
        identity = self.sender.identity
        assert identity is not None
        try:
            answer = await self.network.call_any(
                InitProducerIdRequest(None, self._options.transaction_timeout_ms), InitProducerIdResponse
            )
            check(answer.error_code)
        except ClientError as error:
            if not error.retriable and not (
                isinstance(error, Rejected) and error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            ):
                with self._lock:
                    self.sender.fail_all(error)
                self._report()
                return
            await asyncio.sleep(self.network.backoff_s)
            return
        with self._lock:
            identity.begin(ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch))


def _log_failure(error: BaseException) -> None:
    log.error("A delivery callback raised an exception.", exc_info=error)
