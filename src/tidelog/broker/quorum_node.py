"""This node's part in the metadata quorum, put together: its log, the machine, the store above it, the way to the
controller, and what the controller serves. Built by `assembly.py`; a single broker is a quorum of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.broker.controller_apis import ControllerParts, build_controller_dispatch
from tidelog.broker.controller_channel import ControllerChannel
from tidelog.broker.controller_duties import ControllerDuties
from tidelog.broker.controller_presence import ControllerPresence
from tidelog.broker.dispatch import Dispatch
from tidelog.broker.logs import log
from tidelog.broker.mutation_quotas import MutationQuotas
from tidelog.broker.peers import Peers
from tidelog.broker.ports import Ports
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.broker.raft.driver import Loop, QuorumDriver
from tidelog.broker.raft.metadata_log import MetadataLog, open_metadata_log
from tidelog.broker.raft.quorum_state import read_state
from tidelog.broker.raft.store import QuorumStore
from tidelog.broker.raft.voters import Addresses, configured_voters
from tidelog.broker.settings import LiveSettings
from tidelog.controller.brokers import register
from tidelog.controller.features import ADVERTISED
from tidelog.controller.state import Controller
from tidelog.log.directory import LogDirectory
from tidelog.log.errors import LogFailed
from tidelog.metadata import image as metadata
from tidelog.metadata.image import BrokerRegistration, ClusterImage, ControllerRegistration
from tidelog.metadata.publisher import Publisher
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId
from tidelog.model.listeners import ListenerAddress
from tidelog.raft.machine import Quorum
from tidelog.raft.replicas import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.voter_history import VoterHistory

if TYPE_CHECKING:
    from tidelog.broker.raft.requests import Sender


class QuorumNode:
    """Opened before the data, started after it."""

    def __init__(
        self,
        config: BrokerConfig,
        node_id: NodeId,
        ports: Ports,
        loop: Loop,
        publisher: Publisher,
        build: Callable[[ClusterImage], Controller],
        steady_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._node_id = node_id
        self._ports = ports
        self._loop = loop
        self._publisher = publisher
        self._build = build
        self._steady_ms = steady_ms
        self.peers = Peers(f"node-{node_id}", ports.dialer, loop)
        self.addresses = Addresses(VoterSet(), ())
        self._voters = VoterHistory(VoterSet())
        self._log: MetadataLog
        self.store: QuorumStore
        self.channel: ControllerChannel
        self._duties: ControllerDuties | None = None
        self._driver: QuorumDriver | None = None
        self._presence: ControllerPresence | None = None
        self.dispatch: Dispatch | None = None

    @property
    def is_alone(self) -> bool:
        """Whether nobody else decides: then all that the log holds is committed."""
        return len(self._voters.latest) == 1 and self._voters.latest.get(self._node_id) is not None

    def open(self, directory: LogDirectory) -> ClusterImage:
        """Open the metadata log; what it says, which others may yet correct. Raises OSError, LogFailed, CorruptLog."""
        config = self._config
        self._log = open_metadata_log(
            directory.path, directory.open_files, self._ports.clock, config.metadata_log_segment_bytes
        )
        self._voters = self._known_voters()
        self.addresses = Addresses(self._voters.latest, config.controller_quorum_bootstrap_servers)
        self.store = QuorumStore(
            self._log,
            self._voters,
            self._publisher,
            self._build,
            self._steady_ms,
            snapshot_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        )
        self.channel = ControllerChannel(self._node_id, self.store, self.addresses.get, self.peers, self._loop)
        self.store.when_leader_is_known(self.channel.leader_is_known)
        return self.store.load(alone=self.is_alone)

    def _known_voters(self) -> VoterHistory:
        """From the snapshot and the log, else from the settings, else this node alone."""
        config = self._config
        listener = config.controller_listener_names[0] if config.controller_listener_names else ""
        snapshot = self._log.load_snapshot()
        if snapshot is not None and snapshot.voters is not None:
            history = VoterHistory(snapshot.voters, dynamic=True)
            history.replace(snapshot.id.end_offset, snapshot.voters)
        elif config.controller_quorum_voters:
            history = VoterHistory(configured_voters(config.controller_quorum_voters, listener))
        elif config.is_controller and not config.controller_quorum_bootstrap_servers:
            history = VoterHistory(VoterSet([Voter(ReplicaKey(self._node_id))]))
        else:
            history = VoterHistory(VoterSet(), dynamic=True)
        for offset, voters in self._log.voter_sets():
            if offset > history.latest_offset:
                history.add(offset, voters)
        return history

    def start(
        self,
        cluster_id: str,
        directory_id: UUID,
        controller_listeners: Sequence[tuple[ListenerAddress, int]],
        settings: LiveSettings,
        mutation_quotas: MutationQuotas,
    ) -> None:
        """Take part. When this node is alone, it leads when this returns. Raises OSError, LogFailed, CorruptLog."""
        config = self._config
        known = self._voters.latest.get(self._node_id)
        endpoints = tuple(
            Endpoint(listener.name, listener.host, listener.port or port) for listener, port in controller_listeners
        )
        if known is not None and known.endpoints and not self._voters.is_dynamic:
            endpoints = known.endpoints
        me = Voter(ReplicaKey(self._node_id, directory_id), endpoints)
        if endpoints and self.is_alone and not self._voters.is_dynamic and not config.controller_quorum_voters:
            # A new cluster that others can reach: its voters are records from the start, so that they can change.
            self._voters = self.store.voters = VoterHistory(VoterSet([me]), dynamic=True)
        self.addresses.learn_voters(VoterSet([me]))
        quorum = Quorum(
            me,
            self._log,
            self._voters,
            self._ports.entropy,
            remembered=read_state(self._log.files, self._log.directory),
            settings=QuorumSettings(
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
                election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
                retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
            ),
            bootstrap=self.addresses.bootstrap_ids,
            may_vote=config.is_controller,
        )
        driver = self._driver = QuorumDriver(
            quorum,
            self._log,
            lambda: _sender(cluster_id, me),
            self.addresses,
            self.peers,
            self._loop,
            self._ports.executor,
            self._steady_ms,
            config.controller_quorum_request_timeout_ms,
        )
        if config.is_controller:
            self._prepare_to_control(cluster_id, driver, settings, mutation_quotas)
        self.store.start(driver)
        if config.is_controller and controller_listeners:
            self._show_presence(me, controller_listeners)

    def _show_presence(self, me: Voter, listeners: Sequence[tuple[ListenerAddress, int]]) -> None:
        """Have this controller known to the cluster. One that nobody can reach has nothing to tell."""
        protocols = {listener.name: listener.security_protocol for listener, _ in listeners}
        endpoints = {
            point.listener: metadata.Endpoint(point.listener, point.host, point.port, protocols.get(point.listener, 0))
            for point in me.endpoints
        }
        registration = ControllerRegistration(self._node_id, self._ports.entropy.uuid(), endpoints, ADVERTISED)
        presence = ControllerPresence(registration, self.channel, lambda: self._publisher.image, self._loop)
        self._presence = presence
        self._publisher.subscribe(lambda _: presence.look())

    def _prepare_to_control(
        self, cluster_id: str, driver: QuorumDriver, settings: LiveSettings, mutation_quotas: MutationQuotas
    ) -> None:
        config = self._config
        self._duties = duties = ControllerDuties(
            self._node_id,
            self.store,
            lambda: self.store.is_controller,
            lambda: self.store.image,
            self.peers,
            self._loop,
            self._steady_ms,
            listener=config.inter_broker_listener_name,
            session_ms=config.broker_session_timeout_ms,
            rebalance_seconds=(
                config.leader_imbalance_check_interval_seconds if config.auto_leader_rebalance_enable else 0
            ),
        )
        self.dispatch = build_controller_dispatch(
            ControllerParts(
                desk=QuorumDesk(driver, cluster_id),
                metadata_log=self._log,
                store=self.store,
                settings=settings,
                cluster_id=cluster_id,
                now_ms=self._steady_ms,
                heard=duties.heard,
                mutation_quotas=mutation_quotas,
            ),
            # A node that nobody can reach as a controller need not even load what others would ask.
            reachable=bool(config.controller_listeners),
        )
        self.channel.serve_here(self.dispatch.handlers)
        self.store.when_leading(duties.lead)
        self._publisher.subscribe(duties.settings_changed)

    def register_at_once(self, registration: BrokerRegistration, *, clean: bool) -> int:
        """Register the broker of a node that is alone, ready to serve; its epoch. Raises ProtocolError, LogFailed.

        `clean`: it stopped in good order the last time.
        """
        assert self._driver is not None
        outcomes: list[int | ProtocolError] = []
        with self._driver.waiting_for_the_disk():
            self.store.submit(
                lambda controller: register(controller, registration, self._steady_ms(), ready=True, clean=clean),
                outcomes.append,
            )
        (outcome,) = outcomes
        if isinstance(outcome, ProtocolError):
            raise outcome
        return outcome

    def connection_closed(self, connection: object) -> None:
        """A connection to the controller's listener broke."""
        if self._duties is not None:
            self._duties.closed(connection)  # type: ignore[arg-type]

    def hand_over(self) -> None:
        """Let somebody else lead the quorum, before this node stops."""
        if self._driver is not None and not self.is_alone:
            self._driver.resign()

    def stop(self) -> None:
        """No more requests, no more votes."""
        if self._duties is not None:
            self._duties.stop()
        if self._presence is not None:
            self._presence.stop()
        if self._driver is not None:
            self.channel.close()
            self._driver.stop()
        self.peers.close()

    def close(self) -> None:
        """After everything that may write has ended."""
        try:
            self.store.close()
        except LogFailed as failure:
            log.error("the metadata log could not be closed; it is checked at the next start", reason=str(failure))


def _sender(cluster_id: str, me: Voter) -> Sender:
    # Loaded when there is somebody to send to.
    from tidelog.broker.raft.requests import Sender

    return Sender(cluster_id, me)
