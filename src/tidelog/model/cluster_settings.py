"""Broker settings that this broker honours: replication, the metadata quorum, groups and transactions.

`help` is what DescribeConfigs and `tidelog config` show. Settings that are accepted without any effect here are in
`accepted_settings.py`; a setting moves from there to here when something begins to honour it.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.settings import OneOf, Setting, SettingType, UpdateMode, at_least, one_of, table

BOOLEAN, STRING, INT, LONG = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT, SettingType.LONG
LIST, SHORT = SettingType.LIST, SettingType.SHORT
CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

UNLIMITED_COUNT: Final = "2147483647"
GROUP_KINDS: Final = one_of("consumer", "classic", "share", "streams")
MIGRATION_POLICY: Final = OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True)

CLUSTER_SETTINGS: Final = table(
    [
        # Replication
        Setting(
            "replica.fetch.backoff.ms", INT, "1000", at_least(0),
            "How long a follower waits after a fetch that failed.",
        ),
        Setting(
            "replica.fetch.max.bytes", INT, "1048576", at_least(0),
            "The most bytes of one partition that a follower asks for.",
        ),
        Setting(
            "replica.fetch.min.bytes", INT, "1", None,
            "How many bytes the leader waits for before it answers a follower.",
        ),
        Setting(
            "replica.fetch.response.max.bytes", INT, "10485760", at_least(0),
            "The most bytes that a follower asks for at once.",
        ),
        Setting("replica.fetch.wait.max.ms", INT, "500", None, "How long the leader waits for these bytes."),
        Setting(
            "replica.high.watermark.checkpoint.interval.ms", LONG, "5000", None,
            "How often high watermarks are written to disk.",
        ),
        Setting(
            "replica.lag.time.max.ms", LONG, "30000", None,
            "A follower that was not up to date for this long leaves the ISR.",
        ),
        Setting("replica.socket.timeout.ms", INT, "30000", None, "How long a follower waits for a leader's answer."),
        Setting(
            "num.replica.fetchers", INT, "1", at_least(1),
            "How many connections a follower opens to one leader.", CLUSTER_WIDE,
        ),
        Setting("replica.selector.class", STRING, None, None, "How a consumer is sent to a replica near it."),
        # Controller and metadata quorum
        Setting(
            "controller.quorum.voters", LIST, "", None,
            "The voters of a fixed quorum, as id@host:port,id@host:port.",
        ),
        Setting(
            "controller.quorum.bootstrap.servers", LIST, "", None,
            "Where to find the quorum, as host:port,host:port.",
        ),
        Setting(
            "controller.quorum.election.timeout.ms", INT, "1000", at_least(0),
            "How long a voter waits for votes before it asks again.",
        ),
        Setting(
            "controller.quorum.election.backoff.max.ms", INT, "1000", at_least(0),
            "How long a voter waits at most after an election without result.",
        ),
        Setting(
            "controller.quorum.fetch.timeout.ms", INT, "2000", at_least(0),
            "Without a fetch from the leader for this long a voter calls an election.",
        ),
        Setting(
            "controller.quorum.request.timeout.ms", INT, "2000", at_least(0),
            "How long a request within the quorum may take.",
        ),
        Setting(
            "controller.quorum.retry.backoff.ms", INT, "20", at_least(0),
            "How long a failed request within the quorum waits to be tried again.",
        ),
        Setting(
            "controller.quorum.append.linger.ms", INT, "25", at_least(0),
            "How long the leader gathers records before it writes them.",
        ),
        Setting(
            "controller.quota.window.num", INT, "11", at_least(1),
            "For how many windows clients may save up changes of topics.",
        ),
        Setting("controller.quota.window.size.seconds", INT, "1", at_least(1), "How long one such window is."),
        Setting(
            "broker.heartbeat.interval.ms", INT, "2000", None,
            "How often a broker tells the controller that it lives.",
        ),
        Setting(
            "broker.session.timeout.ms", INT, "9000", None,
            "A broker that was not heard of for this long is fenced.",
        ),
        Setting(
            "initial.broker.registration.timeout.ms", INT, "60000", None,
            "How long a broker tries to register before it gives up.",
        ),
        Setting(
            "auto.leader.rebalance.enable", BOOLEAN, "true", None,
            "Whether leadership returns to the preferred replicas by itself.",
        ),
        Setting("leader.imbalance.check.interval.seconds", LONG, "300", at_least(1), "How often that is looked at."),
        Setting(
            "controlled.shutdown.enable", BOOLEAN, "true", None,
            "Whether a broker hands over its leaderships before it stops.",
        ),
        Setting(
            "metadata.log.max.record.bytes.between.snapshots", LONG, "20971520", at_least(1),
            "After how many bytes of new records a metadata snapshot is made.",
        ),
        Setting(
            "metadata.log.max.snapshot.interval.ms", LONG, "3600000", at_least(0),
            "After which time a metadata snapshot is made; 0 is never.",
        ),
        Setting(
            "metadata.log.segment.bytes", INT, "1073741824", at_least(8388608),
            "How large a segment of the metadata log becomes.",
        ),
        Setting(
            "metadata.log.segment.ms", LONG, "604800000", None,
            "After this time a new segment of the metadata log is begun.",
        ),
        Setting(
            "metadata.max.retention.bytes", LONG, "104857600", None,
            "How large the metadata log may become before old snapshots and segments are deleted.",
        ),
        Setting(
            "metadata.max.retention.ms", LONG, "604800000", None,
            "How long old snapshots and segments of the metadata log are kept.",
        ),
        Setting(
            "metadata.max.idle.interval.ms", INT, "500", at_least(0),
            "How often the leader of the quorum writes when nothing happens.",
        ),
        # Groups and committed offsets
        Setting("group.initial.rebalance.delay.ms", INT, "3000", None, "How long a new group waits for more members."),
        Setting(
            "group.max.session.timeout.ms", INT, "1800000", None,
            "The longest session timeout that a member may ask for.",
        ),
        Setting(
            "group.min.session.timeout.ms", INT, "6000", None,
            "The shortest session timeout that a member may ask for.",
        ),
        Setting("group.max.size", INT, UNLIMITED_COUNT, at_least(1), "How many members a group may have."),
        Setting(
            "group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams", GROUP_KINDS,
            "Which kinds of groups are served.",
        ),
        Setting(
            "group.consumer.assignors", LIST, "uniform,range", None,
            "The assignors of consumer groups (KIP-848), the first is the default.",
        ),
        Setting(
            "group.consumer.heartbeat.interval.ms", INT, "5000", at_least(1),
            "How often members of a consumer group send heartbeats.",
        ),
        Setting(
            "group.consumer.min.heartbeat.interval.ms", INT, "5000", at_least(1),
            "The shortest heartbeat interval that a group may have.",
        ),
        Setting(
            "group.consumer.max.heartbeat.interval.ms", INT, "15000", at_least(1),
            "The longest heartbeat interval that a group may have.",
        ),
        Setting(
            "group.consumer.session.timeout.ms", INT, "45000", at_least(1),
            "A member of a consumer group that was silent for this long is out.",
        ),
        Setting(
            "group.consumer.min.session.timeout.ms", INT, "45000", at_least(1),
            "The shortest session timeout that a group may have.",
        ),
        Setting(
            "group.consumer.max.session.timeout.ms", INT, "60000", at_least(1),
            "The longest session timeout that a group may have.",
        ),
        Setting(
            "group.consumer.max.size", INT, UNLIMITED_COUNT, at_least(1),
            "How many members a consumer group may have.",
        ),
        Setting(
            "group.consumer.migration.policy", STRING, "bidirectional", MIGRATION_POLICY,
            "Whether groups may change between the classic and the new protocol.",
        ),
        Setting(
            "offsets.topic.num.partitions", INT, "50", at_least(1),
            "How many partitions the topic of committed offsets gets.",
        ),
        Setting(
            "offsets.topic.replication.factor", SHORT, "3", at_least(1),
            "How many replicas the topic of committed offsets gets.",
        ),
        Setting(
            "offsets.topic.segment.bytes", INT, "104857600", at_least(1),
            "How large segments of the topic of committed offsets become.",
        ),
        Setting(
            "offsets.topic.compression.codec", INT, "0", None,
            "How the topic of committed offsets is compressed, by number.",
        ),
        Setting("offsets.retention.minutes", INT, "10080", at_least(1), "How long offsets of an empty group are kept."),
        Setting(
            "offsets.retention.check.interval.ms", LONG, "600000", at_least(1),
            "How often offsets are looked at for being forgotten.",
        ),
        Setting("offsets.commit.timeout.ms", INT, "5000", at_least(1), "How long a commit waits for its replicas."),
        Setting("offset.metadata.max.bytes", INT, "4096", None, "How much text may be committed with an offset."),
        # Transactions
        Setting(
            "transaction.max.timeout.ms", INT, "900000", at_least(1),
            "The longest transaction timeout that a producer may ask for.",
        ),
        Setting(
            "transaction.state.log.num.partitions", INT, "50", at_least(1),
            "How many partitions the topic of transactions gets.",
        ),
        Setting(
            "transaction.state.log.replication.factor", SHORT, "3", at_least(1),
            "How many replicas the topic of transactions gets.",
        ),
        Setting(
            "transaction.state.log.min.isr", INT, "2", at_least(1),
            "min.insync.replicas of the topic of transactions.",
        ),
        Setting(
            "transaction.state.log.segment.bytes", INT, "104857600", at_least(1),
            "How large segments of the topic of transactions become.",
        ),
        Setting(
            "transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", at_least(1),
            "How often unused transactional ids are looked at.",
        ),
        Setting(
            "transactional.id.expiration.ms", INT, "604800000", at_least(1),
            "How long an unused transactional id is kept.",
        ),
        Setting(
            "transaction.partition.verification.enable", BOOLEAN, "true", None,
            "Whether a write of a transaction is checked with its coordinator.", CLUSTER_WIDE,
        ),
        Setting(
            "transaction.two.phase.commit.enable", BOOLEAN, "false", None,
            "Whether producers may prepare transactions that only an outside coordinator ends.",
        ),
    ]
)  # fmt: skip
