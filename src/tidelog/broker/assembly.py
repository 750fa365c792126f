"""The one place that builds a broker: settings, directories, metadata, partitions, handlers, listeners, in this order.

`BrokerNode` is used by the broker process and by the embedded broker; everything else is given what it needs.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_URL, uuid5

from tidelog.broker.apis import Parts, build_dispatch
from tidelog.broker.compactor import Compactor
from tidelog.broker.connection import Connection, HandlesRequests
from tidelog.broker.connection_rates import ConnectionRates
from tidelog.broker.controller_apis import passed_on
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.forwarding import Forwarding
from tidelog.broker.gradual import PARTITIONS_AT_ONCE, Gradually
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.lifecycle import BrokerLife
from tidelog.broker.listener import Listener
from tidelog.broker.log_cutting import LogCutting
from tidelog.broker.logs import log
from tidelog.broker.mutation_quotas import MutationQuotas
from tidelog.broker.other_brokers import OtherBrokers
from tidelog.broker.own_settings import OwnSettings
from tidelog.broker.partition_logs import PartitionLogs
from tidelog.broker.ports import Ports, real_ports
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.quorum_node import QuorumNode
from tidelog.broker.quotas import Windows
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.broker.replication import Replication
from tidelog.broker.room_watch import RoomWatch
from tidelog.broker.settings import LiveSettings
from tidelog.broker.storage import Storage
from tidelog.broker.throttling import Throttling
from tidelog.broker.topic_creation import CreationByController
from tidelog.broker.transaction_coordinator import TransactionCoordinator, transaction_settings
from tidelog.broker.transaction_markers import LocalMarkers
from tidelog.broker.transaction_peers import TransactionPeers
from tidelog.broker.turn import Turn
from tidelog.controller.features import ADVERTISED
from tidelog.controller.state import Controller, Policy
from tidelog.log.archive import Archive
from tidelog.log.checkpoints import encode_uuid, read_owner
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import NO_BROKER_EPOCH, LogDirectory
from tidelog.log.errors import LogFailed
from tidelog.metadata.delta import difference
from tidelog.metadata.image import EMPTY, BrokerRegistration, ClusterImage, Endpoint
from tidelog.metadata.publisher import Publisher
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.ids import NodeId, TopicPartition
from tidelog.model.listeners import ListenerAddress
from tidelog.replica.partitions import LedPartitions

if TYPE_CHECKING:
    from tidelog.broker.metrics import MetricsServer

EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
SESSION_ID_MAX: Final = 2**31 - 1
FETCH_SESSION_IDLE_SECONDS: Final = 120.0
# How long a node that stops waits for others to take over what it leads, and for word of that to get around.
LEAVE_SECONDS_MAX: Final = 10.0
HAND_OVER_SECONDS: Final = 0.1
PARTITIONS_AT_ONCE_ALONE: Final = 2**31


class BrokerNode:
    """One node of a cluster: a broker, a controller, or both; alone, or with others."""

    def __init__(
        self, properties: Mapping[str, str], loop: asyncio.AbstractEventLoop, ports: Ports | None = None
    ) -> None:
        """Reads the settings only. Raises ProtocolError(INVALID_CONFIG) that names what is wrong."""
        self.config = config = BrokerConfig.from_properties(properties)
        self.own = OwnSettings.from_properties(properties)
        self.node_id = NodeId(config.node_id)
        self.settings = LiveSettings(self.node_id, properties, lambda: self._publisher.image)
        self._loop = loop
        self._ports = ports = ports or real_ports(loop)
        self._clock = ports.clock
        self.started_seconds = self._clock.now_ms() / 1000
        self._started_monotonic = self._clock.monotonic()
        self._executor = ports.executor
        self._directories = LogDirectories(
            config.log_dirs,
            ports.files,
            self._clock,
            open_files_max=ports.open_files_max,
            close_threads=ports.close_threads,
        )
        self._publisher = Publisher()
        self._turn = Turn(loop.call_soon, self.own.memory_in_flight_bytes, self._clock.now_ms)
        self._storage = Storage(
            self._directories,
            loop,
            self._executor,
            self._clock.now_ms,
            checkpoint_seconds=config.log_flush_offset_checkpoint_interval_ms / 1000,
            retention_check_seconds=config.log_retention_check_interval_ms / 1000,
            producer_expiration_ms=lambda: self.settings.producer_expiration_ms(),
            archive=None if self.own.archive_dir is None else Archive(ports.files, self.own.archive_dir),
        )
        self._compactor = Compactor(
            self._directories,
            self._storage,
            loop,
            self._clock.now_ms,
            threads=config.log_cleaner_threads if config.log_cleaner_enable else 0,
            backoff_seconds=config.log_cleaner_backoff_ms / 1000,
            keys_bytes_max=config.log_cleaner_dedupe_buffer_size,
            bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        )
        self._room_watch = RoomWatch(
            self._directories, loop, self._executor, self.own.room_limits, lambda: self._publisher.repeat()
        )
        self._logs = PartitionLogs(self._directories, config.producer_id_expiration_ms, self.own.archives)
        self._partitions = LedPartitions(
            self.node_id,
            self._logs,
            self.settings.topic,
            self._turn.write,
            self._storage,
            self._steady_ms,
            config.replica_lag_time_max_ms,
        )
        self._quota_windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._mutation_quotas = MutationQuotas(
            Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
            loop,
            self._steady_ms,
        )
        self._publisher.subscribe(self._mutation_quotas.apply)
        # Of the controller; and of the broker, for clients and other brokers.
        self._listeners: list[Listener] = []
        self._client_listeners: list[Listener] = []
        self._metrics: MetricsServer | None = None
        self._quorum = QuorumNode(
            config, self.node_id, ports, loop, self._publisher, self._build_controller, self._steady_ms
        )
        # What the metadata said when this node stopped: others may know better.
        self._last_known = EMPTY
        self._life: BrokerLife | None = None
        self._client_sockets: list[tuple[ListenerAddress, socket.socket]] = []
        self._cluster_id = ""
        self._is_open = False
        self.is_ready = False
        self._on_ready: list[Callable[[], None]] = []
        self._on_failed: list[Callable[[], None]] = []
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._replication: Replication | None = None

    # What others may know of it

    @property
    def port(self) -> int:
        """The port of the first listener."""
        if self._client_sockets:
            return int(self._client_sockets[0][1].getsockname()[1])
        return (self._client_listeners or self._listeners)[0].port

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where clients connect."""
        registration = self._publisher.image.brokers.get(self.node_id)
        return [] if registration is None else list(registration.endpoints.values())

    @property
    def metrics_url(self) -> str | None:
        return None if self._metrics is None else f"http://{self._metrics.host}:{self._metrics.port}/metrics"

    # Life

    def start(self) -> None:
        """Open the data, recover what must be, take part in the cluster, listen.

        A node that is alone serves when this returns; another one when the cluster has let it in: see `when_ready`.
        Raises OSError, DirectoryInUse, WrongOwner, CorruptLog, LogFailed, and ProtocolError for settings.
        """
        config, quorum = self.config, self._quorum
        clients = [(listener, self._ports.bind(listener.host, listener.port)) for listener in config.client_listeners]
        controllers: list[tuple[ListenerAddress, socket.socket]] = []
        try:
            if config.is_controller:
                controllers += [
                    (listener, self._ports.bind(listener.host, listener.port))
                    for listener in config.controller_listeners
                ]
            self._directories.lock()
            self._cluster_id = self._find_cluster_id()
            metadata_directory = self._metadata_directory()
            self._last_known = quorum.open(metadata_directory)
            quorum.store.when_failed(self._metadata_failed)
            self._directories.load(self._log_config_of)
            self._directories.claim(self._cluster_id, self.node_id)
            if metadata_directory.failure is not None or metadata_directory.owner is None:
                raise OSError(
                    f"{metadata_directory.path}, which holds the metadata, fails: {metadata_directory.failure}"
                )
            self._is_open = True
            registration = self._registration([(listener, sock.getsockname()[1]) for listener, sock in clients])
            quorum.start(
                self._cluster_id,
                metadata_directory.owner.directory_id,
                [(listener, sock.getsockname()[1]) for listener, sock in controllers],
                self.settings,
                self._mutation_quotas,
            )
        except BaseException:
            for _, sock in clients + controllers:
                sock.close()
            raise
        for listener, sock in controllers:
            assert quorum.dispatch is not None
            self._listeners.append(self._listener(listener, sock, quorum.dispatch, quorum.connection_closed))
            self._listeners[-1].start()
        self._client_sockets = clients
        if config.is_broker:
            self._join(registration)
        else:
            self._become_ready()

    def _join(self, registration: BrokerRegistration) -> None:
        """Become a broker of the cluster: at once when this node is all of it."""
        quorum = self._quorum
        self._life = life = BrokerLife(
            quorum.channel,
            self._cluster_id,
            self._loop,
            lambda: self._publisher.image,
            heartbeat_ms=self.config.broker_heartbeat_interval_ms,
            new_id=self._ports.entropy.uuid,
            caught_up=self._serve_clients_soon,
            serving=self._become_ready,
        )
        if quorum.is_alone:
            clean = all(directory.was_clean for directory in self._directories.online())
            life.registered_at_once(registration, quorum.register_at_once(registration, clean=clean))
            self._serve_clients()
            self._become_ready()
        else:
            self._publisher.subscribe(lambda delta: life.metadata_grew(delta.after))
            life.join(registration)

    def when_ready(self, act: Callable[[], None]) -> None:
        """Call `act` when this node serves, or now when it does."""
        if self.is_ready:
            act()
        else:
            self._on_ready.append(act)

    def when_failed(self, act: Callable[[], None]) -> None:
        """Call `act` when this node is of no use to its cluster any more and should be stopped."""
        self._on_failed.append(act)

    def _metadata_failed(self) -> None:
        """The disk refused the metadata. A broker that learns nothing more must not count as alive.

        One that is alone goes on with what it has: nobody could take its place.
        """
        if not self._quorum.is_alone:
            self._fail()

    def _fail(self) -> None:
        if self._life is not None:
            self._life.stop()
        for act in self._on_failed:
            act()

    def _become_ready(self) -> None:
        if self.is_ready:
            return
        self.is_ready = True
        log.info(
            "ready",
            node=self.node_id,
            cluster=self._cluster_id,
            listening=", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in self.endpoints),
            partitions=len(self._partitions),
            seconds=round(self._clock.monotonic() - self._started_monotonic, 3),
        )
        for act in self._on_ready:
            act()

    def _serve_clients_soon(self) -> None:
        # Not now: this comes from a subscriber of the metadata, and a subscriber cannot bring more of them.
        self._loop.call_soon(self._serve_clients_or_fail)

    def _serve_clients_or_fail(self) -> None:
        """A broker that cannot serve must not go on as one that is about to: whoever started it has to know."""
        try:
            self._serve_clients()
        except (OSError, LogFailed) as error:
            log.error("the broker cannot serve clients", reason=str(error))
            self._fail()
        except Exception:
            log.exception("the broker cannot serve clients")
            self._fail()

    def _serve_clients(self) -> None:
        """The metadata is known: hold the partitions it says, and listen."""
        assert self._life is not None
        config, quorum, life = self.config, self._quorum, self._life
        store = quorum.store
        self._logs.warn_of_strays(self._publisher.image)
        others = OtherBrokers(
            lambda: self._publisher.image, config.inter_broker_listener_name, quorum.peers, self._loop
        )
        transaction_peers = TransactionPeers(others)
        self._replication = Replication(
            config,
            self.node_id,
            lambda: life.epoch,
            self._partitions,
            LogCutting(self._directories, self._executor, self._loop, self._steady_ms),
            others,
            quorum.channel,
            self._loop,
            self._steady_ms,
        )
        self._replication.start()
        # One that is alone is waited for by nobody, and has its partitions when their creation is answered.
        at_once = PARTITIONS_AT_ONCE_ALONE if quorum.is_alone else PARTITIONS_AT_ONCE
        gradually = Gradually(self._loop.call_soon, at_once)
        so_far = difference(EMPTY, self._publisher.image)
        gradually.add(self._partitions.apply, so_far)
        gradually.add(self._replication.apply, so_far)
        topics = CreationByController(quorum.channel)
        self._groups = groups = GroupCoordinator(
            config, topics, self._partitions, self._ports.entropy, self._steady_ms, self._loop
        )
        gradually.add(groups.apply, so_far)
        producer_ids = ProducerIds(quorum.channel, self.node_id, lambda: life.epoch)
        markers = LocalMarkers(self._partitions, groups, self._clock.now_ms)
        self._transactions = transactions = TransactionCoordinator(
            transaction_settings(config, self.own.two_phase_ids_max),
            config,
            self.node_id,
            topics,
            self._partitions,
            producer_ids,
            markers,
            self._steady_ms,
            self._loop,
            self._turn.later,
            transaction_peers,
        )
        # After the groups: markers that are still to be written concern their partitions, too.
        gradually.add(transactions.apply, so_far)
        self._publisher.subscribe(gradually.apply)
        sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            FETCH_SESSION_IDLE_SECONDS,
            self._clock.monotonic,
            lambda: self._ports.entropy.below(SESSION_ID_MAX) + 1,
        )
        dispatch = build_dispatch(
            Parts(
                config=config,
                settings=self.settings,
                cluster_id=self._cluster_id,
                node_id=self.node_id,
                image=lambda: self._publisher.image,
                controller_id=self._controller_for_clients,
                broker_epoch=lambda: life.epoch,
                kraft_version=lambda: store.kraft_version,
                forwarded=Forwarding(store, quorum.channel, self._loop).wrap_all(
                    passed_on(
                        store,
                        self.settings,
                        QuorumDesk(store.driver, self._cluster_id),
                        self._mutation_quotas,
                    )
                ),
                topics=topics,
                partitions=self._partitions,
                groups=groups,
                producer_ids=producer_ids,
                transactions=transactions,
                markers=markers,
                transaction_peers=transaction_peers,
                replication_throttle=self._replication.leader_throttle,
                directories=self._directories,
                sessions=sessions,
                turn=self._turn,
                loop=self._loop,
                now_ms=lambda: self._turn.now_ms,
            )
        )
        throttling = Throttling(dispatch, self._quota_windows, self._loop, self._steady_ms)
        self._publisher.subscribe(throttling.apply)
        rates = ConnectionRates(self._quota_windows, config.max_connection_creation_rate)
        self._publisher.subscribe(rates.apply)
        for listener, sock in self._client_sockets:
            self._client_listeners.append(self._listener(listener, sock, dispatch, rates=rates))
        self._client_sockets = []
        if self.own.metrics_port is not None:
            # Loaded only when asked for: the library takes longer to import than the broker to start.
            from tidelog.broker.metrics import MetricsServer, Sources

            sources = Sources(dispatch, self._partitions, self._client_listeners, sessions, self.started_seconds)
            self._metrics = MetricsServer(self.own.metrics_host, self.own.metrics_port, sources)
            self._metrics.start()
        self._storage.start(self._partitions)
        self._room_watch.start(self._partitions)
        self._compactor.start(self._partitions)
        for made in self._client_listeners:
            made.start()
        life.ready()

    def _listener(
        self,
        listener: ListenerAddress,
        sock: socket.socket,
        requests: HandlesRequests,
        connection_closed: Callable[[Connection], None] | None = None,
        rates: ConnectionRates | None = None,
    ) -> Listener:
        config = self.config
        among_brokers_only = listener.name == config.inter_broker_listener_name and len(config.client_listeners) > 1
        return self._ports.listen(
            listener.name,
            sock,
            self._loop,
            self._turn,
            requests,
            frame_bytes_max=config.socket_request_max_bytes,
            connections_max=config.max_connections,
            connections_per_address_max=config.max_connections_per_ip,
            idle_seconds_max=config.connections_max_idle_ms / 1000,
            connection_closed=connection_closed,
            rates=rates,
            counts_in_all=not among_brokers_only,
        )

    async def leave(self) -> None:
        """Hand over what this node leads, before `stop`; patience has an end."""
        left = asyncio.Event()
        self.leave_then(left.set)
        await left.wait()

    def leave_then(self, left: Callable[[], None]) -> None:
        """The same, without waiting: `left` is called when it is done, or nobody takes over in time."""
        if not self._is_open or (self._quorum.is_alone and len(self._publisher.image.brokers) <= 1):
            left()  # There is nobody to hand over to.
            return
        waiting = [left]

        def hand_over() -> None:
            if waiting:
                self._quorum.hand_over()
                self._loop.call_later(HAND_OVER_SECONDS, waiting.pop())

        if self._life is None:
            hand_over()
        else:
            self._life.leave(hand_over)
            self._loop.call_later(LEAVE_SECONDS_MAX, hand_over)

    def stop(self) -> None:
        """Stop cleanly: no more requests, everything on disk, the marker that says so."""
        if self._life is not None:
            self._life.stop()
        for _, sock in self._client_sockets:
            sock.close()
        listeners = self._client_listeners + self._listeners
        for listener in listeners:
            listener.stop_accepting()
        self._turn.settle()
        for listener in listeners:
            listener.close()
        if self._replication is not None:
            self._replication.stop_all()
        self._quorum.stop()
        if self._transactions is not None:
            self._transactions.stop()
        if self._groups is not None:
            self._groups.stop()
        if self._metrics is not None:
            self._metrics.close()
        self._compactor.stop()
        self._room_watch.stop()
        self._storage.stop()
        self._executor.shutdown(wait=True)
        if self._is_open:
            self._storage.note_high_watermarks()
            self._quorum.close()
            self._directories.close(NO_BROKER_EPOCH if self._life is None else self._life.epoch)
        else:
            # What was not opened whole is left as it was found: the next start must not take it for a clean stop.
            self._directories.abandon()

    def _steady_ms(self) -> int:
        """Wall clock time that neither leaps nor goes back while the broker runs: what sessions are measured with."""
        return int((self.started_seconds + self._clock.monotonic() - self._started_monotonic) * 1000)

    def _build_controller(self, image: ClusterImage) -> Controller:
        policy = Policy(
            default_partitions=self.config.num_partitions,
            default_replication_factor=self.config.default_replication_factor,
            delete_topics=self.config.delete_topic_enable,
            broker_session_timeout_ms=self.config.broker_session_timeout_ms,
            static_settings=self.settings.static,
        )
        return Controller(policy, self._ports.entropy, image)

    def _log_config_of(self, partition: TopicPartition) -> LogConfig:
        return self._logs.config_of(partition.topic, self.settings.topic(self._last_known, partition.topic))

    def _metadata_directory(self) -> LogDirectory:
        """Where the metadata log is: the directory that is named for it, else the first."""
        online = self._directories.online()
        if not online:
            failures = "; ".join(str(directory.failure) for directory in self._directories.offline())
            raise OSError(f"no log directory can be used: {failures}")
        return next((one for one in online if one.path == self.config.metadata_log_dir), online[0])

    def _find_cluster_id(self) -> str:
        """What the directories say; a new cluster gets an id, the same one on all nodes that are given its voters."""
        for directory in self._directories.online():
            owner = read_owner(directory.files, directory.path)
            if owner is not None:
                return owner.cluster_id
        if self.own.cluster_id is not None:
            return self.own.cluster_id
        voters = self.config.controller_quorum_voters
        if len(voters) > 1 or (voters and not self.config.is_controller):
            text = ",".join(f"{voter.node_id}@{voter.host}:{voter.port}" for voter in sorted(voters))
            return encode_uuid(uuid5(NAMESPACE_URL, f"tidelog:{text}"))
        return encode_uuid(self._ports.entropy.uuid())

    def _controller_for_clients(self) -> NodeId:
        """Whom clients send changes to: this broker, which passes them on to whoever is the controller by then.

        It lives, or it would not be asked; the controller itself may have died a moment ago.
        """
        alive = [broker.broker_id for broker in self._publisher.image.unfenced_brokers()]
        return self.node_id if self.node_id in alive or not alive else alive[0]

    def _registration(self, listeners: list[tuple[ListenerAddress, int]]) -> BrokerRegistration:
        advertised = self.config.advertised_endpoints
        return BrokerRegistration(
            broker_id=self.node_id,
            epoch=self._directories.stopped_in_epoch,
            incarnation_id=self._ports.entropy.uuid(),
            endpoints={
                listener.name: _endpoint(advertised.get(listener.name, listener), port) for listener, port in listeners
            },
            features=ADVERTISED,
            rack=self.config.broker_rack,
            directories=tuple(
                directory.owner.directory_id for directory in self._directories.online() if directory.owner is not None
            ),
        )


def _endpoint(address: ListenerAddress, bound_port: int) -> Endpoint:
    """Where clients are told to connect: for port 0 the one that was bound, for every interface this machine's name."""
    host = socket.getfqdn() if address.host in EVERY_INTERFACE else address.host
    return Endpoint(address.name, host, address.port or bound_port, address.security_protocol)
