"""Prometheus metrics under the names that Kafka dashboards already use (those of the JMX exporter's usual rules).

The hot path only counts in plain integers; they are turned into metrics when somebody asks, in the thread of the HTTP
server.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidelog.broker.dispatch import Dispatch
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.listener import Listener
from tidelog.replica.partitions import LedPartitions

NANOSECONDS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Sources:
    """What is measured. Read-only here."""

    dispatch: Dispatch
    partitions: LedPartitions
    listeners: Iterable[Listener]
    sessions: FetchSessions
    started_seconds: float


class BrokerCollector:
    """Makes the metrics at the moment of a scrape."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._topics()
        yield from self._logs()
        yield from self._replicas()
        yield from self._connections()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "kafka_network_requestmetrics_requests_total", "Requests by API.", labels=["request"]
        )
        size = CounterMetricFamily(
            "kafka_network_requestmetrics_requestbytes_total", "Bytes of requests by API.", labels=["request"]
        )
        seconds = CounterMetricFamily(
            "kafka_network_requestmetrics_localtime_seconds_total",
            "Seconds spent in handlers by API, without waiting.",
            labels=["request"],
        )
        failures = CounterMetricFamily(
            "kafka_network_requestmetrics_errors_total", "Requests whose handler failed.", labels=["request"]
        )
        for statistics in self._sources.dispatch.statistics.values():
            requests.add_metric([statistics.name], statistics.requests)
            size.add_metric([statistics.name], statistics.request_bytes)
            seconds.add_metric([statistics.name], statistics.handler_ns / NANOSECONDS)
            failures.add_metric([statistics.name], statistics.failures)
        yield from (requests, size, seconds, failures)

    def _topics(self) -> Iterator[Metric]:
        messages = CounterMetricFamily(
            "kafka_server_brokertopicmetrics_messagesin_total", "Records appended.", labels=["topic"]
        )
        bytes_in = CounterMetricFamily(
            "kafka_server_brokertopicmetrics_bytesin_total", "Bytes appended.", labels=["topic"]
        )
        bytes_out = CounterMetricFamily(
            "kafka_server_brokertopicmetrics_bytesout_total", "Bytes handed to consumers.", labels=["topic"]
        )
        failed = CounterMetricFamily(
            "kafka_server_brokertopicmetrics_failedproducerequests_total", "Batches refused.", labels=["topic"]
        )
        for topic, led in tuple(self._sources.partitions.by_name.items()):
            leaders = tuple(led.values())
            messages.add_metric([topic], sum(leader.records_in for leader in leaders))
            bytes_in.add_metric([topic], sum(leader.bytes_in for leader in leaders))
            bytes_out.add_metric([topic], sum(leader.bytes_out for leader in leaders))
            failed.add_metric([topic], sum(leader.batches_refused for leader in leaders))
        yield from (messages, bytes_in, bytes_out, failed)

    def _logs(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes on disk.", labels=labels)
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset.", labels=labels)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Next offset.", labels=labels)
        segments = GaugeMetricFamily("kafka_log_log_numlogsegments", "Segments.", labels=labels)
        for leader in tuple(self._sources.partitions):
            where = [leader.topic, str(leader.index)]
            size.add_metric(where, leader.log.size_bytes)
            start.add_metric(where, leader.log.start_offset)
            end.add_metric(where, leader.log.end_offset)
            segments.add_metric(where, len(leader.log.segments))
        yield from (size, start, end, segments)

    def _replicas(self) -> Iterator[Metric]:
        leaders = tuple(self._sources.partitions)
        for name, text, value in (
            ("leadercount", "Partitions led by this broker.", len(leaders)),
            ("partitioncount", "Partitions on this broker.", len(leaders)),
            (
                "underreplicatedpartitions",
                "Partitions with replicas out of sync.",
                sum(len(leader.isr) < len(leader.replicas) for leader in leaders),
            ),
            ("underminisrpartitioncount", "Partitions below min ISR.", sum(not x.enough_in_sync() for x in leaders)),
        ):
            yield GaugeMetricFamily(f"kafka_server_replicamanager_{name}", text, value)
        yield GaugeMetricFamily("kafka_controller_kafkacontroller_activecontrollercount", "1 on the controller.", 1)

    def _connections(self) -> Iterator[Metric]:
        sources = self._sources
        count = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count", "Open connections.", labels=["listener"]
        )
        accepted = CounterMetricFamily(
            "kafka_server_socket_server_metrics_connection_creation_total", "Connections accepted.", labels=["listener"]
        )
        refused = CounterMetricFamily(
            "kafka_server_socket_server_metrics_connection_refused_total", "Connections refused.", labels=["listener"]
        )
        for listener in sources.listeners:
            count.add_metric([listener.name], len(listener.connections))
            accepted.add_metric([listener.name], listener.accepted)
            refused.add_metric([listener.name], listener.refused)
        yield from (count, accepted, refused)
        yield GaugeMetricFamily(
            "kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions.", len(sources.sessions)
        )
        yield CounterMetricFamily(
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
            "Fetch sessions evicted.",
            sources.sessions.evicted,
        )
        yield GaugeMetricFamily(
            "kafka_server_app_info_starttime_seconds", "When this broker started.", sources.started_seconds
        )


class MetricsServer:
    """GET /metrics on a port of its own, in a thread of its own."""

    def __init__(self, host: str, port: int, sources: Sources) -> None:
        from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

        class Server(ThreadingHTTPServer, WSGIServer):
            daemon_threads = True

        class QuietHandler(WSGIRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Scrapes are not news."""

        registry = CollectorRegistry()
        registry.register(BrokerCollector(sources))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self._server = Server((host, port), QuietHandler)
        self._server.set_app(make_wsgi_app(registry))
        self.host, self.port = host, self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="tidelog-metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
