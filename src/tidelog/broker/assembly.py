"""The one place that builds a broker: settings, directories, metadata, partitions, handlers, listeners, in this order.

`BrokerNode` is used by the broker process and by the embedded broker; everything else is given what it needs.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from tidelog.broker.apis import Parts, build_dispatch
from tidelog.broker.compactor import Compactor
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.listener import Listener, bind
from tidelog.broker.logs import log
from tidelog.broker.own_settings import OwnSettings
from tidelog.broker.partition_logs import PartitionLogs
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.quorum import QuorumOfOne, open_metadata_log
from tidelog.broker.quotas import Windows
from tidelog.broker.room_watch import RoomWatch
from tidelog.broker.settings import LiveSettings
from tidelog.broker.storage import Storage
from tidelog.broker.throttling import Throttling
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_markers import LocalMarkers
from tidelog.broker.turn import Turn
from tidelog.controller.features import SUPPORTED
from tidelog.controller.state import Controller, Policy
from tidelog.env.clock import RealClock
from tidelog.env.files import RealFiles
from tidelog.log.archive import Archive
from tidelog.log.checkpoints import encode_uuid
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.metadata.image import BrokerRegistration, Endpoint
from tidelog.metadata.publisher import Publisher
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.ids import NodeId, TopicPartition
from tidelog.model.listeners import ListenerAddress
from tidelog.replica.partitions import LedPartitions

if TYPE_CHECKING:
    from tidelog.broker.metrics import MetricsServer

THREADS: Final = 4
EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
SESSION_ID_MAX: Final = 2**31 - 1
FETCH_SESSION_IDLE_SECONDS: Final = 120.0


class SystemEntropy:
    """Ids that nobody can guess or repeat."""

    def uuid(self) -> UUID:
        return uuid4()


class BrokerNode:
    """One broker: a quorum of one that leads all its partitions."""

    def __init__(self, properties: Mapping[str, str], loop: asyncio.AbstractEventLoop) -> None:
        """Reads the settings only. Raises ProtocolError(INVALID_CONFIG) that names what is wrong."""
        self.config = config = BrokerConfig.from_properties(properties)
        self.own = OwnSettings.from_properties(properties)
        self.node_id = NodeId(config.node_id)
        self.settings = LiveSettings(self.node_id, properties, lambda: self._publisher.image)
        self.started_seconds = time.time()
        self._loop = loop
        self._clock = RealClock()
        self._started_monotonic = self._clock.monotonic()
        # The wall clock, read once a turn.
        self._turn_ms = self._clock.now_ms()
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="tidelog-disk")
        self._directories = LogDirectories(config.log_dirs, RealFiles(), self._clock)
        self._publisher = Publisher()
        self._turn = Turn(loop.call_soon, self.own.memory_in_flight_bytes, self._read_clock)
        self._storage = Storage(
            self._directories,
            loop,
            self._executor,
            self._clock.now_ms,
            checkpoint_seconds=config.log_flush_offset_checkpoint_interval_ms / 1000,
            retention_check_seconds=config.log_retention_check_interval_ms / 1000,
            archive=None if self.own.archive_dir is None else Archive(RealFiles(), self.own.archive_dir),
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
        self._room_watch = RoomWatch(self._directories, loop, self._executor, self.own.room_limits)
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
        self._listeners: list[Listener] = []
        self._metrics: MetricsServer | None = None
        self._quorum: QuorumOfOne | None = None
        self._is_ready = False
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None

    # What others may know of it

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self._listeners[0].port

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where clients connect."""
        registration = self._publisher.image.brokers[self.node_id]
        return list(registration.endpoints.values())

    @property
    def metrics_url(self) -> str | None:
        return None if self._metrics is None else f"http://{self._metrics.host}:{self._metrics.port}/metrics"

    # Life

    def start(self) -> None:
        """Open the data, recover what must be, lead, listen. Raises OSError, DirectoryInUse, WrongOwner."""
        config = self.config
        sockets = [(listener, bind(listener.host, listener.port)) for listener in config.client_listeners]
        try:
            self._directories.lock()
            self._quorum = quorum = self._open_quorum()
            quorum.load()
            self._directories.load(self._log_config_of)
            cluster_id = self._claim_directories()
            self._logs.warn_of_strays(self._publisher.image)
            registration = self._registration([(listener, sock.getsockname()[1]) for listener, sock in sockets])
            quorum.lead(registration)
            self._publisher.subscribe(self._partitions.apply)
            self._groups = groups = GroupCoordinator(
                config, quorum, self._partitions, SystemEntropy(), self._steady_ms, self._loop
            )
            self._publisher.subscribe(groups.apply)
            producer_ids = ProducerIds(quorum, self.node_id, lambda: quorum.broker_epoch)
            markers = LocalMarkers(self._partitions, groups, self._clock.now_ms)
            self._transactions = transactions = TransactionCoordinator(
                config, self.node_id, quorum, self._partitions, producer_ids, markers, self._steady_ms, self._loop
            )
            # After the groups: markers that are still to be written concern their partitions, too.
            self._publisher.subscribe(transactions.apply)
        except BaseException:
            for _, sock in sockets:
                sock.close()
            raise
        sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            FETCH_SESSION_IDLE_SECONDS,
            self._clock.monotonic,
            lambda: secrets.randbelow(SESSION_ID_MAX) + 1,
        )
        dispatch = build_dispatch(
            Parts(
                config=config,
                settings=self.settings,
                cluster_id=cluster_id,
                node_id=self.node_id,
                image=lambda: self._publisher.image,
                controller_id=lambda: quorum.controller_id,
                broker_epoch=lambda: quorum.broker_epoch,
                commands=quorum,
                partitions=self._partitions,
                groups=groups,
                producer_ids=producer_ids,
                transactions=transactions,
                markers=markers,
                directories=self._directories,
                sessions=sessions,
                turn=self._turn,
                loop=self._loop,
                now_ms=lambda: self._turn_ms,
            )
        )
        windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        throttling = Throttling(dispatch, windows, self._loop, self._steady_ms)
        self._publisher.subscribe(throttling.apply)
        for listener, sock in sockets:
            self._listeners.append(
                Listener(
                    listener.name,
                    sock,
                    self._loop,
                    self._turn,
                    dispatch.handle_frame,
                    frame_bytes_max=config.socket_request_max_bytes,
                    connections_max=config.max_connections,
                    connections_per_address_max=config.max_connections_per_ip,
                    idle_seconds_max=config.connections_max_idle_ms / 1000,
                )
            )
        if self.own.metrics_port is not None:
            # Loaded only when asked for: the library takes longer to import than the broker to start.
            from tidelog.broker.metrics import MetricsServer, Sources

            sources = Sources(dispatch, self._partitions, self._listeners, sessions, self.started_seconds)
            self._metrics = MetricsServer(self.own.metrics_host, self.own.metrics_port, sources)
            self._metrics.start()
        self._storage.start(self._partitions)
        self._room_watch.start(self._partitions)
        self._compactor.start(self._partitions)
        for made in self._listeners:
            made.start()
        self._is_ready = True
        log.info(
            "ready",
            node=self.node_id,
            cluster=cluster_id,
            listening=", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in self.endpoints),
            partitions=len(self._partitions),
            seconds=round(time.time() - self.started_seconds, 3),
        )

    def stop(self) -> None:
        """Stop cleanly: no more requests, everything on disk, the marker that says so."""
        for listener in self._listeners:
            listener.stop_accepting()
        self._turn.settle()
        for listener in self._listeners:
            listener.close()
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
        if self._quorum is not None and self._is_ready:
            self._storage.note_high_watermarks()
            self._quorum.close()
            self._directories.close()
        else:
            # What was not opened whole is left as it was found: the next start must not take it for a clean stop.
            self._directories.abandon()

    def _steady_ms(self) -> int:
        """Wall clock time that neither leaps nor goes back while the broker runs: what sessions are measured with."""
        return int((self.started_seconds + self._clock.monotonic() - self._started_monotonic) * 1000)

    def _read_clock(self) -> None:
        self._turn_ms = self._clock.now_ms()

    def _open_quorum(self) -> QuorumOfOne:
        directory = self._directories.online()[0]
        policy = Policy(
            default_partitions=self.config.num_partitions,
            default_replication_factor=self.config.default_replication_factor,
            delete_topics=self.config.delete_topic_enable,
            static_settings=self.settings.static,
        )
        return QuorumOfOne(
            self.node_id,
            open_metadata_log(directory.path, directory.open_files, self._clock),
            lambda: Controller(policy, SystemEntropy()),
            self._publisher,
            self._clock.now_ms,
            self._loop,
            self._executor,
        )

    def _log_config_of(self, partition: TopicPartition) -> LogConfig:
        return self._logs.config_of(partition.topic, self.settings.topic(self._publisher.image, partition.topic))

    def _claim_directories(self) -> str:
        """A new directory becomes this node's; the first one says which cluster this is."""
        owners = [directory.owner for directory in self._directories.online() if directory.owner is not None]
        cluster_id = owners[0].cluster_id if owners else encode_uuid(uuid4())
        self._directories.claim(cluster_id, self.node_id)
        return cluster_id

    def _registration(self, listeners: list[tuple[ListenerAddress, int]]) -> BrokerRegistration:
        advertised = self.config.advertised_endpoints
        return BrokerRegistration(
            broker_id=self.node_id,
            epoch=0,
            incarnation_id=uuid4(),
            endpoints={
                listener.name: _endpoint(advertised.get(listener.name, listener), port) for listener, port in listeners
            },
            features=SUPPORTED,
            rack=self.config.broker_rack,
            directories=tuple(
                directory.owner.directory_id for directory in self._directories.online() if directory.owner is not None
            ),
        )


def _endpoint(address: ListenerAddress, bound_port: int) -> Endpoint:
    """Where clients are told to connect: for port 0 the one that was bound, for every interface this machine's name."""
    host = socket.getfqdn() if address.host in EVERY_INTERFACE else address.host
    return Endpoint(address.name, host, address.port or bound_port, address.security_protocol)
