"""Drives the machine of the quorum: takes events in one by one and carries out what it wants, in its order.

What must be durable before anything else is written in a thread, and everything behind it waits: rules 1 to 6 of
`raft/effects.py` are kept here. What others in this process should know (`Listener`) is told when all effects of a step
are done, so that they may append at once.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.broker.logs import log
from tidelog.broker.peers import PeerFailed, Peers
from tidelog.broker.raft.metadata_log import MetadataLog
from tidelog.broker.raft.quorum_state import write_state
from tidelog.broker.raft.snapshots import Snapshot
from tidelog.broker.raft.voters import Addresses
from tidelog.env.network import Timer, Timers
from tidelog.log.errors import CorruptLog, LogFailed
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.machine import Quorum
from tidelog.raft.ports import SnapshotId
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.schema import Response

if TYPE_CHECKING:
    from tidelog.broker.raft.requests import Send, Sender

# A fetch may be held by the leader; what comes behind it must not wait for that.
FETCH_PURPOSE: Final = "quorum-fetch"
OTHER_PURPOSE: Final = "quorum"

Answer = (
    do.AnswerVote
    | do.AnswerBeginEpoch
    | do.AnswerEndEpoch
    | do.AnswerFetch
    | do.AnswerFetchSnapshot
    | do.AnswerVoterChange
)
News = (
    do.BecameUnattached
    | do.BecameProspective
    | do.BecameCandidate
    | do.BecameFollower
    | do.BecameLeader
    | do.BecameResigned
    | do.LeadershipEstablished
    | do.CommittedUpTo
)


class Loop(Timers, Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object: ...


class Listener(Protocol):
    """Who wants to know what becomes of this node, and of the log."""

    def on_news(self, news: News) -> None: ...

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """A snapshot of the leader has taken the place of the log."""
        ...

    def on_failed(self, reason: Exception) -> None:
        """The disk refused: this node takes no part in the quorum any more."""
        ...


class QuorumDriver:
    """One member of the quorum at work."""

    def __init__(
        self,
        quorum: Quorum,
        metadata_log: MetadataLog,
        sender: Callable[[], Sender],
        addresses: Addresses,
        peers: Peers,
        loop: Loop,
        executor: Executor,
        now_ms: Callable[[], int],
        request_timeout_ms: int,
    ) -> None:
        self.quorum = quorum
        self.addresses = addresses
        self._log = metadata_log
        self._sender = sender
        self._peers = peers
        self._loop = loop
        self._executor = executor
        self._now_ms = now_ms
        self._request_timeout_ms = request_timeout_ms
        self._listener: Listener | None = None
        self._events: deque[on.Event] = deque()
        self._effects: deque[do.Effect] = deque()
        self._news: deque[News | Snapshot] = deque()
        self._running = False
        # Whether a thread makes something durable that all else must wait for.
        self._blocked = False
        self._starting = False
        self._telling = False
        self._stopped = False
        self._timer: Timer | None = None
        self._calls: dict[int, Callable[[Any], None]] = {}
        self._next_call_id = 0
        self._carry_out: dict[type[Any], Callable[[Any], None]] = {
            do.PersistState: self._persist,
            do.AppendToLog: lambda effect: self._log.append_control(effect.records, effect.epoch),
            do.AppendFetched: lambda effect: self._log.append_fetched(effect.batches),
            do.TruncateTo: lambda effect: self._log.truncate(effect.offset),
            do.SyncLog: self._sync,
            do.StoreSnapshot: lambda effect: self._log.store_piece(effect.snapshot, effect.position, effect.piece),
            do.InstallSnapshot: self._install,
            do.SendVote: self._send,
            do.SendBeginEpoch: self._send,
            do.SendEndEpoch: self._send,
            do.SendFetch: self._send,
            do.SendFetchSnapshot: self._send,
            do.SendUpdateVoter: self._send,
            do.AnswerVote: self._answer,
            do.AnswerBeginEpoch: self._answer,
            do.AnswerEndEpoch: self._answer,
            do.AnswerFetch: self._answer,
            do.AnswerFetchSnapshot: self._answer,
            do.AnswerVoterChange: self._answer,
            do.BecameUnattached: self._news.append,
            do.BecameProspective: self._news.append,
            do.BecameCandidate: self._news.append,
            do.BecameFollower: self._news.append,
            do.BecameLeader: self._news.append,
            do.LeadershipEstablished: self._news.append,
            do.BecameResigned: self._news.append,
            do.CommittedUpTo: self._news.append,
            do.StartTimer: self._start_timer,
            do.Complain: lambda effect: log.warning("the quorum refused something", reason=effect.message),
        }

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self, listener: Listener) -> None:
        """Begin. Until this returns nothing is served, so the disk is waited for: a quorum of one leads already then.

        Raises LogFailed and OSError.
        """
        self._listener = listener
        with self.waiting_for_the_disk():
            self.handle(on.Started())

    @contextlib.contextmanager
    def waiting_for_the_disk(self) -> Iterator[None]:
        """While nobody is served yet: what else is done in threads is done at once."""
        self._starting = True
        try:
            yield
        finally:
            self._starting = False

    def resign(self) -> None:
        """Let others lead, if this node does: it is about to stop."""
        self.handle(on.Resign())

    def stop(self) -> None:
        self._stopped = True
        self._events.clear()
        self._effects.clear()
        self._news.clear()
        if self._timer is not None:
            self._timer.cancel()

    # --- events -------------------------------------------------------------------------------------------------------

    def ask(self, event: Callable[[int], on.Event], answer: Callable[[Any], None]) -> None:
        """A request of another node: `answer` gets the machine's answer to the event made with this call's id."""
        self._next_call_id += 1
        call_id = self._next_call_id
        self._calls[call_id] = answer
        self.handle(event(call_id))

    def appended(self, epoch: LeaderEpoch, end: Offset) -> None:
        """The controller of this node has appended to the log, when `may_append` said that it may."""
        self.handle(on.Appended(epoch, end))

    def may_append(self, epoch: LeaderEpoch) -> bool:
        """Whether this node leads this epoch, and nothing is under way that counts offsets."""
        return (
            not self._stopped
            and self.quorum.leading_epoch == epoch
            and not (self._running or self._blocked or self._events)
        )

    def handle(self, event: on.Event) -> None:
        """Take in an event now, or when those before it are done."""
        if self._stopped:
            return
        self._events.append(event)
        self._run()

    def _run(self) -> None:
        if self._running or self._blocked:
            return
        self._running = True
        try:
            while not self._blocked and not self._stopped:
                if self._effects:
                    effect = self._effects.popleft()
                    self._carry_out[type(effect)](effect)
                elif self._events:
                    self._effects.extend(self.quorum.step(self._now_ms(), self._events.popleft()))
                else:
                    break
        except (OSError, LogFailed, CorruptLog) as error:
            self._fail(error)
        finally:
            self._running = False
        self._tell()

    def _tell(self) -> None:
        if self._telling:
            return
        self._telling = True
        listener = self._listener
        assert listener is not None, "started with a listener"
        try:
            while self._news and not self._blocked and not self._stopped:
                news = self._news.popleft()
                if isinstance(news, Snapshot):
                    listener.on_snapshot(news)
                else:
                    listener.on_news(news)
        finally:
            self._telling = False

    def _fail(self, error: Exception) -> None:
        """What the disk holds is unknown now, so this node neither votes nor acknowledges any more."""
        if self._starting:
            raise error
        log.error("the metadata log failed; this node leaves the quorum", reason=str(error))
        self.stop()
        if self._listener is not None:
            self._listener.on_failed(error)

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _in_thread(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]
    ) -> None:
        """Do what blocks; tell in the loop. While the node starts it is done at once."""
        if self._starting:
            done(work())
            return

        def run() -> None:
            try:
                outcome = work()
            except (OSError, LogFailed, CorruptLog) as error:
                failure = error
                self._loop.call_soon_threadsafe(lambda: self._report(failed, failure))
            else:
                self._loop.call_soon_threadsafe(lambda: self._report(done, outcome))

        self._executor.submit(run)

    def _report(self, tell: Callable[[Any], None], outcome: object) -> None:
        if not self._stopped:
            tell(outcome)

    def _persist(self, effect: do.PersistState) -> None:
        files, directory = self._log.files, self._log.directory
        self._blocked = True
        self._in_thread(lambda: write_state(files, directory, effect), self._unblock, self._fail)

    def _unblock(self, _: object) -> None:
        self._blocked = False
        self._run()

    def _sync(self, effect: do.SyncLog) -> None:
        self._in_thread(self._log.flush, lambda _: self.handle(on.SyncDone(effect.sync_id)), self._fail)

    def _install(self, effect: do.InstallSnapshot) -> None:
        snapshot = effect.snapshot

        def refused(error: Exception) -> None:
            if isinstance(error, CorruptLog):
                log.warning("a fetched snapshot cannot be used", snapshot=str(snapshot), reason=str(error))
                self.handle(on.SnapshotRejected(snapshot))
            else:
                self._fail(error)

        self._in_thread(lambda: self._log.install(snapshot), self._installed, refused)

    def _installed(self, snapshot: Snapshot) -> None:
        try:
            self._log.start_again_at(snapshot.id)
        except (OSError, LogFailed) as error:
            self._fail(error)
            return
        self._news.append(snapshot)
        if snapshot.voters is not None:
            self.addresses.learn_voters(snapshot.voters)
        self.handle(on.SnapshotInstalled(snapshot.id, snapshot.voters))

    # --- what is sent and answered ------------------------------------------------------------------------------------

    def _send(self, effect: Send) -> None:
        to = effect.to if isinstance(effect.to, int) else effect.to.node_id
        self.addresses.learn_voters(self.quorum.voters)
        address = self.addresses.get(NodeId(to))
        if address is None:
            failed = on.RequestFailed(effect.request_id)
            self._loop.call_soon(lambda: self.handle(failed))
            return
        # Loaded with the first request: a node that is alone sends none, and starts sooner.
        from tidelog.broker.raft.requests import event_of

        is_fetch = isinstance(effect, do.SendFetch | do.SendFetchSnapshot)

        def answered(response: Response | PeerFailed) -> None:
            if isinstance(response, PeerFailed):
                self.handle(on.RequestFailed(effect.request_id, response.refused))
                return
            self._learn_endpoints(response)
            self.handle(event_of(effect, NodeId(to), response))

        self._peers.to(address, FETCH_PURPOSE if is_fetch else OTHER_PURPOSE).send(
            self._sender().request(effect), answered, timeout_ms=self._request_timeout_ms
        )

    def _learn_endpoints(self, response: Response) -> None:
        for node in getattr(response, "node_endpoints", ()):
            self.addresses.learn(node.node_id, node.host, node.port)
        if isinstance(response, FetchResponse):
            return
        leader = getattr(response, "current_leader", None)
        if leader is not None:
            self.addresses.learn(leader.leader_id, leader.host, leader.port)

    def _answer(self, effect: Answer) -> None:
        answer = self._calls.pop(effect.call_id, None)
        if answer is not None:
            answer(effect)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _start_timer(self, effect: do.StartTimer) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(effect.deadline_ms - self._now_ms(), 0)
        # A millisecond more: the clock of the machine counts whole ones.
        self._timer = self._loop.call_later((delay_ms + 1) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.handle(on.Tick())

    # --- snapshots of our own -----------------------------------------------------------------------------------------

    def take_snapshot(self, snapshot: SnapshotId, write: Callable[[], None], done: Callable[[], None]) -> None:
        """Write a snapshot of committed metadata in a thread, then let go of what it makes superfluous."""

        def written(_: object) -> None:
            try:
                self._log.snapshot_written(snapshot)
            except (OSError, LogFailed) as error:
                self._fail(error)
                return
            done()

        self._in_thread(write, written, self._fail)
