"""Broker settings that this broker honours: identity, listeners, requests, topics and the log.

`help` is what DescribeConfigs and `tidelog config` show. Settings that are accepted without any effect here are in
`accepted_settings.py`; a setting moves from there to here when something begins to honour it.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.settings import Range, Setting, SettingType, UpdateMode, at_least, one_of, table
from tidelog.model.topic_settings import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    FOREVER,
    GZIP_LEVEL,
    LZ4_LEVEL,
    SEGMENT_BYTES_MIN,
    TIMESTAMP_TYPE,
    ZSTD_LEVEL,
)

BOOLEAN, STRING, INT, LONG = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT, SettingType.LONG
DOUBLE, LIST = SettingType.DOUBLE, SettingType.LIST
CLUSTER_WIDE, PER_BROKER = UpdateMode.CLUSTER_WIDE, UpdateMode.PER_BROKER

UNLIMITED_COUNT: Final = "2147483647"
SECURITY_PROTOCOL: Final = one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Each protocol is also the name of the listener that uses it.
SAME_NAMES: Final = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"

SERVER_SETTINGS: Final = table(
    [
        # Who this broker is
        Setting("node.id", INT, None, at_least(0), "The number of this node, unique in the cluster."),
        Setting("broker.id", INT, "-1", None, "The old name of node.id; both may be set when they agree."),
        Setting(
            "process.roles", LIST, None, one_of("broker", "controller"),
            "What this process is: broker, controller, or both; both when not set.",
        ),
        Setting("broker.rack", STRING, None, None, "Where this broker stands; replicas are spread over racks."),
        # Listeners
        Setting(
            "listeners", LIST, "PLAINTEXT://:9092", None,
            "Addresses to listen on, as NAME://host:port; an empty host is every interface, port 0 any free port.",
            PER_BROKER,
        ),
        Setting(
            "advertised.listeners", LIST, None, None,
            "Addresses that clients are told to connect to; those of listeners when not set.",
        ),
        Setting(
            "listener.security.protocol.map", STRING, SAME_NAMES, None,
            "The security protocol of each listener name.", PER_BROKER,
        ),
        Setting("inter.broker.listener.name", STRING, None, None, "The listener that brokers use among themselves."),
        Setting(
            "security.inter.broker.protocol", STRING, "PLAINTEXT", SECURITY_PROTOCOL,
            "The security protocol among brokers, where inter.broker.listener.name is not set.",
        ),
        Setting("controller.listener.names", LIST, None, None, "The listeners of the controller."),
        # Connections and requests
        Setting(
            "socket.request.max.bytes", INT, "104857600", at_least(1),
            "The largest request that is read; a larger one closes its connection.",
        ),
        Setting(
            "socket.receive.buffer.bytes", INT, "102400", None,
            "The receive buffer of sockets; -1 leaves it to the operating system.",
        ),
        Setting(
            "socket.send.buffer.bytes", INT, "102400", None,
            "The send buffer of sockets; -1 leaves it to the operating system.",
        ),
        Setting("socket.listen.backlog.size", INT, "50", at_least(1), "How many connections may wait to be accepted."),
        Setting(
            "connections.max.idle.ms", LONG, "600000", None,
            "After this time a connection without requests is closed.",
        ),
        Setting(
            "max.connections", INT, UNLIMITED_COUNT, at_least(0),
            "How many connections this broker accepts.", CLUSTER_WIDE,
        ),
        Setting(
            "max.connections.per.ip", INT, UNLIMITED_COUNT, at_least(0),
            "How many connections are accepted from one address.", CLUSTER_WIDE,
        ),
        Setting(
            "max.connections.per.ip.overrides", STRING, "", None,
            "Other limits for some addresses, as host:count,host:count.", CLUSTER_WIDE,
        ),
        Setting(
            "max.connection.creation.rate", INT, UNLIMITED_COUNT, at_least(0),
            "How many connections are accepted in a second.", CLUSTER_WIDE,
        ),
        Setting("queued.max.requests", INT, "500", at_least(1), "How many requests may wait before no more are read."),
        Setting(
            "queued.max.request.bytes", LONG, "-1", None,
            "How many bytes of requests may wait before no more are read; -1 is no limit.",
        ),
        Setting(
            "max.request.partition.size.limit", INT, "2000", at_least(1),
            "How many partitions one DescribeTopicPartitions answer may hold.",
        ),
        Setting("request.timeout.ms", INT, "30000", None, "How long a broker waits for the answer of another."),
        # Produce and fetch
        Setting(
            "message.max.bytes", INT, "1048588", at_least(0),
            "The largest record batch that is accepted, where a topic does not say otherwise.", CLUSTER_WIDE,
        ),
        Setting("fetch.max.bytes", INT, "57671680", at_least(1024), "The most bytes that one fetch answers with."),
        Setting("quota.window.num", INT, "11", at_least(1), "Over how many windows the rates of clients are measured."),
        Setting("quota.window.size.seconds", INT, "1", at_least(1), "How long one such window is."),
        Setting(
            "max.incremental.fetch.session.cache.slots", INT, "1000", at_least(0),
            "How many fetch sessions are kept.",
        ),
        Setting(
            "min.insync.replicas", INT, "1", at_least(1),
            "With fewer replicas in sync a write with acks=all is refused.", CLUSTER_WIDE,
        ),
        Setting(
            "producer.id.expiration.ms", INT, "86400000", at_least(1),
            "How long a producer without writes is remembered for de-duplication.", CLUSTER_WIDE,
        ),
        Setting(
            "compression.type", STRING, "producer", COMPRESSION_TYPE,
            "How batches are stored; 'producer' keeps what each producer sent.", CLUSTER_WIDE,
        ),
        Setting(
            "compression.gzip.level", INT, "-1", GZIP_LEVEL,
            "Level for compression.type=gzip; -1 is zlib's default.", CLUSTER_WIDE,
        ),
        Setting("compression.lz4.level", INT, "9", LZ4_LEVEL, "Level for compression.type=lz4.", CLUSTER_WIDE),
        Setting("compression.zstd.level", INT, "3", ZSTD_LEVEL, "Level for compression.type=zstd.", CLUSTER_WIDE),
        # Topics
        Setting(
            "auto.create.topics.enable", BOOLEAN, "true", None,
            "Whether a topic is created when a client first asks for it.",
        ),
        Setting("delete.topic.enable", BOOLEAN, "true", None, "Whether topics may be deleted."),
        Setting("num.partitions", INT, "1", at_least(1), "How many partitions a topic gets when nobody says."),
        Setting("default.replication.factor", INT, "1", None, "How many replicas a partition gets when nobody says."),
        Setting(
            "unclean.leader.election.enable", BOOLEAN, "false", None,
            "Whether a replica that is behind may lead when no other is left, at the price of lost records.",
            CLUSTER_WIDE,
        ),
        # The log
        Setting("log.dirs", LIST, None, None, "The folders of the data, separated by commas."),
        Setting("log.dir", LIST, "/tmp/kafka-logs", None, "The folder of the data, where log.dirs is not set."),
        Setting(
            "metadata.log.dir", STRING, None, None,
            "The folder of the metadata log; the first data folder when not set.",
        ),
        Setting(
            "log.segment.bytes", INT, "1073741824", at_least(SEGMENT_BYTES_MIN),
            "How large a segment becomes before a new one is begun.", CLUSTER_WIDE,
        ),
        Setting(
            "log.roll.ms", LONG, None, None,
            "After this time a new segment is begun, full or not; before log.roll.hours.", CLUSTER_WIDE,
        ),
        Setting("log.roll.hours", INT, "168", at_least(1), "After this time a new segment is begun, full or not."),
        Setting(
            "log.roll.jitter.ms", LONG, None, None,
            "By up to how much a segment is rolled early; before log.roll.jitter.hours.", CLUSTER_WIDE,
        ),
        Setting("log.roll.jitter.hours", INT, "0", at_least(0), "By up to how much a segment is rolled early."),
        Setting(
            "log.segment.delete.delay.ms", LONG, "60000", at_least(0),
            "How long a file stays on disk after its segment left the log.", CLUSTER_WIDE,
        ),
        Setting(
            "log.index.interval.bytes", INT, "4096", at_least(0),
            "An index entry is written after about this many bytes.", CLUSTER_WIDE,
        ),
        Setting(
            "log.index.size.max.bytes", INT, "10485760", at_least(4),
            "How large a segment's offset index may become.", CLUSTER_WIDE,
        ),
        Setting(
            "log.preallocate", BOOLEAN, "false", None,
            "Reserve a segment's whole size on disk when it is created.", CLUSTER_WIDE,
        ),
        Setting(
            "log.message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPE,
            "Whether records keep their producer's time or get the broker's.", CLUSTER_WIDE,
        ),
        Setting(
            "log.message.timestamp.after.max.ms", LONG, "3600000", at_least(0),
            "How far a record's timestamp may be ahead of the broker's clock.", CLUSTER_WIDE,
        ),
        Setting(
            "log.message.timestamp.before.max.ms", LONG, FOREVER, at_least(0),
            "How far a record's timestamp may be behind the broker's clock.", CLUSTER_WIDE,
        ),
        Setting(
            "log.flush.interval.messages", LONG, FOREVER, at_least(1),
            "After how many records of a partition its log is forced to disk.", CLUSTER_WIDE,
        ),
        Setting(
            "log.flush.interval.ms", LONG, None, None,
            "How long a record may wait before its log is forced to disk.", CLUSTER_WIDE,
        ),
        Setting(
            "log.flush.scheduler.interval.ms", LONG, FOREVER, None,
            "How often logs are looked at for being forced to disk.",
        ),
        Setting(
            "log.flush.offset.checkpoint.interval.ms", INT, "60000", at_least(0),
            "How often it is written down how far logs are on disk.",
        ),
        Setting(
            "log.flush.start.offset.checkpoint.interval.ms", INT, "60000", at_least(0),
            "How often it is written down where logs begin.",
        ),
        Setting(
            "log.dir.failure.timeout.ms", LONG, "30000", at_least(1),
            "How long a broker runs on without telling the controller that a data folder failed.",
        ),
        Setting(
            "num.recovery.threads.per.data.dir", INT, "2", at_least(1),
            "How many logs of a data folder are recovered at once.", CLUSTER_WIDE,
        ),
        # Retention and compaction
        Setting(
            "log.cleanup.policy", LIST, "delete", CLEANUP_POLICY,
            "Old segments are deleted, or compacted to the last value of each key, or both.", CLUSTER_WIDE,
        ),
        Setting(
            "log.retention.ms", LONG, None, None,
            "How long records are kept; before log.retention.minutes and .hours; -1 is for ever.", CLUSTER_WIDE,
        ),
        Setting("log.retention.minutes", INT, None, None, "How long records are kept; before log.retention.hours."),
        Setting("log.retention.hours", INT, "168", None, "How long records are kept."),
        Setting(
            "log.retention.bytes", LONG, "-1", None,
            "How large a partition may become before its oldest segments are deleted; -1 is no limit.", CLUSTER_WIDE,
        ),
        Setting(
            "log.retention.check.interval.ms", LONG, "300000", at_least(1),
            "How often segments are looked at for deletion.",
        ),
        Setting("log.cleaner.enable", BOOLEAN, "true", None, "Whether topics are compacted that ask for it."),
        Setting("log.cleaner.threads", INT, "1", at_least(0), "How many threads compact logs.", CLUSTER_WIDE),
        Setting(
            "log.cleaner.backoff.ms", LONG, "15000", at_least(0),
            "How long the cleaner sleeps when there is nothing to compact.", CLUSTER_WIDE,
        ),
        Setting(
            "log.cleaner.dedupe.buffer.size", LONG, "134217728", None,
            "How much memory the cleaner may use for keys.", CLUSTER_WIDE,
        ),
        Setting(
            "log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", None,
            "How much the cleaner reads and writes in a second.", CLUSTER_WIDE,
        ),
        Setting(
            "log.cleaner.delete.retention.ms", LONG, "86400000", at_least(0),
            "How long compaction keeps tombstones.", CLUSTER_WIDE,
        ),
        Setting(
            "log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", Range(0, 1),
            "Which share of a log must be new before it is compacted.", CLUSTER_WIDE,
        ),
        Setting(
            "log.cleaner.min.compaction.lag.ms", LONG, "0", at_least(0),
            "How long a record is safe from compaction.", CLUSTER_WIDE,
        ),
        Setting(
            "log.cleaner.max.compaction.lag.ms", LONG, FOREVER, at_least(1),
            "After this time a record is compacted in any case.", CLUSTER_WIDE,
        ),
        Setting(
            "log.local.retention.bytes", LONG, "-2", at_least(-2),
            "How much stays on local disk with tiered storage; -2 is log.retention.bytes.", CLUSTER_WIDE,
        ),
        Setting(
            "log.local.retention.ms", LONG, "-2", at_least(-2),
            "How long data stays on local disk with tiered storage; -2 is log.retention.ms.", CLUSTER_WIDE,
        ),
    ]
)  # fmt: skip
