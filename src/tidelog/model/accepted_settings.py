"""Broker settings of Apache Kafka that are known, checked and described, but change nothing here.

So that a server.properties from elsewhere is read without complaint, and DescribeConfigs shows what tools expect.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.model.settings import OneOf, Range, Rule, Setting, SettingType, UpdateMode, table

NOT_SET: Final = "-"
EMPTY: Final = "''"

# name | type | default | allowed values | how it may be changed (read-only when nothing is said)
_ROWS: Final = """
add.partitions.to.txn.retry.backoff.max.ms | int | 100 | [0,...]
add.partitions.to.txn.retry.backoff.ms | int | 20 | [1,...]
alter.config.policy.class.name | class | -
alter.log.dirs.replication.quota.window.num | int | 11 | [1,...]
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | [1,...]
authorizer.class.name | string | ''
background.threads | int | 10 | [1,...] | cluster-wide
client.quota.callback.class | class | -
config.providers | list | '' |  | cluster-wide
connection.failed.authentication.delay.ms | int | 100 | [0,...]
connections.max.reauth.ms | long | 0
controller.quorum.auto.join.enable | boolean | false
controller.socket.timeout.ms | int | 30000
create.topic.policy.class.name | class | -
delegation.token.expiry.check.interval.ms | long | 3600000 | [1,...]
delegation.token.expiry.time.ms | long | 86400000 | [1,...]
delegation.token.max.lifetime.ms | long | 604800000 | [1,...]
delegation.token.secret.key | password | -
delete.records.purgatory.purge.interval.requests | int | 1
early.start.listeners | list | -
fetch.purgatory.purge.interval.requests | int | 1000
group.coordinator.append.linger.ms | int | -1 | [-1,...]
group.coordinator.threads | int | 4 | [1,...]
group.share.assignors | list | simple
group.share.delivery.count.limit | int | 5 | [2,...,10]
group.share.heartbeat.interval.ms | int | 5000 | [1,...]
group.share.max.heartbeat.interval.ms | int | 15000 | [1,...]
group.share.max.record.lock.duration.ms | int | 60000 | [30000,...,3600000]
group.share.max.session.timeout.ms | int | 60000 | [1,...]
group.share.max.share.sessions | int | 2000 | [1,...]
group.share.max.size | int | 200 | [1,...,1000]
group.share.min.heartbeat.interval.ms | int | 5000 | [1,...]
group.share.min.record.lock.duration.ms | int | 15000 | [1000,...,30000]
group.share.min.session.timeout.ms | int | 45000 | [1,...]
group.share.partition.max.record.locks | int | 2000 | [100,...,10000]
group.share.record.lock.duration.ms | int | 30000 | [1000,...,3600000]
group.share.session.timeout.ms | int | 45000 | [1,...]
group.streams.heartbeat.interval.ms | int | 5000 | [1,...]
group.streams.initial.rebalance.delay.ms | int | 3000 | [0,...]
group.streams.max.heartbeat.interval.ms | int | 15000 | [1,...]
group.streams.max.session.timeout.ms | int | 60000 | [1,...]
group.streams.max.size | int | 2147483647 | [1,...]
group.streams.max.standby.replicas | int | 2 | [0,...]
group.streams.min.heartbeat.interval.ms | int | 5000 | [1,...]
group.streams.min.session.timeout.ms | int | 45000 | [1,...]
group.streams.num.standby.replicas | int | 0 | [0,...]
group.streams.session.timeout.ms | int | 45000 | [1,...]
kafka.metrics.polling.interval.secs | int | 10 | [1,...]
kafka.metrics.reporters | list | ''
log.cleaner.io.buffer.load.factor | double | 0.9 |  | cluster-wide
log.cleaner.io.buffer.size | int | 524288 | [0,...] | cluster-wide
metric.reporters | list | org.apache.kafka.common.metrics.JmxReporter |  | cluster-wide
metrics.num.samples | int | 2 | [1,...]
metrics.recording.level | string | INFO
metrics.sample.window.ms | long | 30000 | [1,...]
num.io.threads | int | 8 | [1,...] | cluster-wide
num.network.threads | int | 3 | [1,...] | cluster-wide
num.replica.alter.log.dirs.threads | int | -
offsets.load.buffer.size | int | 5242880 | [1,...]
principal.builder.class | class | org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder |  | per-broker
producer.purgatory.purge.interval.requests | int | 1000
remote.fetch.max.wait.ms | int | 500 | [1,...] | cluster-wide
remote.list.offsets.request.timeout.ms | long | 30000 | [1,...] | cluster-wide
remote.log.index.file.cache.total.size.bytes | long | 1073741824 | [1,...] | cluster-wide
remote.log.manager.copier.thread.pool.size | int | 10 | [1,...] | cluster-wide
remote.log.manager.copy.max.bytes.per.second | long | 9223372036854775807 | [1,...] | cluster-wide
remote.log.manager.copy.quota.window.num | int | 11 | [1,...]
remote.log.manager.copy.quota.window.size.seconds | int | 1 | [1,...]
remote.log.manager.expiration.thread.pool.size | int | 10 | [1,...] | cluster-wide
remote.log.manager.fetch.max.bytes.per.second | long | 9223372036854775807 | [1,...] | cluster-wide
remote.log.manager.fetch.quota.window.num | int | 11 | [1,...]
remote.log.manager.fetch.quota.window.size.seconds | int | 1 | [1,...]
remote.log.manager.follower.thread.pool.size | int | 2 | [1,...] | cluster-wide
remote.log.manager.task.interval.ms | long | 30000 | [1,...]
remote.log.manager.thread.pool.size | int | 2 | [1,...]
remote.log.metadata.custom.metadata.max.bytes | int | 128 | [0,...]
remote.log.metadata.manager.class.name | string | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path | string | -
remote.log.metadata.manager.impl.prefix | string | rlmm.config.
remote.log.metadata.manager.listener.name | string | -
remote.log.reader.max.pending.tasks | int | 100 | [1,...]
remote.log.reader.threads | int | 10 | [1,...] | cluster-wide
remote.log.storage.manager.class.name | string | -
remote.log.storage.manager.class.path | string | -
remote.log.storage.manager.impl.prefix | string | rsm.config.
remote.log.storage.system.enable | boolean | false
replica.socket.receive.buffer.bytes | int | 65536
replication.quota.window.num | int | 11 | [1,...]
replication.quota.window.size.seconds | int | 1 | [1,...]
sasl.client.callback.handler.class | class | -
sasl.enabled.mechanisms | list | GSSAPI |  | per-broker
sasl.jaas.config | password | - |  | per-broker
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit |  | per-broker
sasl.kerberos.min.time.before.relogin | long | 60000 |  | per-broker
sasl.kerberos.principal.to.local.rules | list | DEFAULT |  | per-broker
sasl.kerberos.service.name | string | - |  | per-broker
sasl.kerberos.ticket.renew.jitter | double | 0.05 |  | per-broker
sasl.kerberos.ticket.renew.window.factor | double | 0.8 |  | per-broker
sasl.login.callback.handler.class | class | -
sasl.login.class | class | -
sasl.login.connect.timeout.ms | int | -
sasl.login.read.timeout.ms | int | -
sasl.login.refresh.buffer.seconds | short | 300 |  | per-broker
sasl.login.refresh.min.period.seconds | short | 60 |  | per-broker
sasl.login.refresh.window.factor | double | 0.8 |  | per-broker
sasl.login.refresh.window.jitter | double | 0.05 |  | per-broker
sasl.login.retry.backoff.max.ms | long | 10000
sasl.login.retry.backoff.ms | long | 100
sasl.mechanism.controller.protocol | string | GSSAPI
sasl.mechanism.inter.broker.protocol | string | GSSAPI |  | per-broker
sasl.oauthbearer.assertion.algorithm | string | RS256 | (case insensitive) [ES256, RS256]
sasl.oauthbearer.assertion.claim.aud | string | -
sasl.oauthbearer.assertion.claim.exp.seconds | int | 300 | [0,...,86400]
sasl.oauthbearer.assertion.claim.iss | string | -
sasl.oauthbearer.assertion.claim.jti.include | boolean | false
sasl.oauthbearer.assertion.claim.nbf.seconds | int | 60 | [0,...,3600]
sasl.oauthbearer.assertion.claim.sub | string | -
sasl.oauthbearer.assertion.file | string | -
sasl.oauthbearer.assertion.private.key.file | string | -
sasl.oauthbearer.assertion.private.key.passphrase | password | -
sasl.oauthbearer.assertion.template.file | string | -
sasl.oauthbearer.client.credentials.client.id | string | -
sasl.oauthbearer.client.credentials.client.secret | password | -
sasl.oauthbearer.clock.skew.seconds | int | 30
sasl.oauthbearer.expected.audience | list | ''
sasl.oauthbearer.expected.issuer | string | -
sasl.oauthbearer.jwks.endpoint.refresh.ms | long | 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100
sasl.oauthbearer.jwks.endpoint.url | string | -
sasl.oauthbearer.jwt.retriever.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope | string | -
sasl.oauthbearer.scope.claim.name | string | scope
sasl.oauthbearer.sub.claim.name | string | sub
sasl.oauthbearer.token.endpoint.url | string | -
sasl.server.callback.handler.class | class | -
sasl.server.max.receive.size | int | 524288
security.providers | string | -
share.coordinator.append.linger.ms | int | -1 | [-1,...]
share.coordinator.load.buffer.size | int | 5242880 | [1,...]
share.coordinator.snapshot.update.records.per.snapshot | int | 500 | [0,...]
share.coordinator.state.topic.compression.codec | int | 0
share.coordinator.state.topic.min.isr | short | 2 | [1,...]
share.coordinator.state.topic.num.partitions | int | 50 | [1,...]
share.coordinator.state.topic.replication.factor | short | 3 | [1,...]
share.coordinator.state.topic.segment.bytes | int | 104857600 | [1,...]
share.coordinator.threads | int | 1 | [1,...]
share.coordinator.write.timeout.ms | int | 5000 | [1,...]
share.fetch.purgatory.purge.interval.requests | int | 1000
socket.connection.setup.timeout.max.ms | long | 30000
socket.connection.setup.timeout.ms | long | 10000
ssl.allow.dn.changes | boolean | false
ssl.allow.san.changes | boolean | false
ssl.cipher.suites | list | '' |  | per-broker
ssl.client.auth | string | none | [required, requested, none] | per-broker
ssl.enabled.protocols | list | TLSv1.2,TLSv1.3 |  | per-broker
ssl.endpoint.identification.algorithm | string | https |  | per-broker
ssl.engine.factory.class | class | - |  | per-broker
ssl.key.password | password | - |  | per-broker
ssl.keymanager.algorithm | string | SunX509 |  | per-broker
ssl.keystore.certificate.chain | password | - |  | per-broker
ssl.keystore.key | password | - |  | per-broker
ssl.keystore.location | string | - |  | per-broker
ssl.keystore.password | password | - |  | per-broker
ssl.keystore.type | string | JKS |  | per-broker
ssl.principal.mapping.rules | string | DEFAULT
ssl.protocol | string | TLSv1.3 |  | per-broker
ssl.provider | string | - |  | per-broker
ssl.secure.random.implementation | string | - |  | per-broker
ssl.trustmanager.algorithm | string | PKIX |  | per-broker
ssl.truststore.certificates | password | - |  | per-broker
ssl.truststore.location | string | - |  | per-broker
ssl.truststore.password | password | - |  | per-broker
ssl.truststore.type | string | JKS |  | per-broker
telemetry.max.bytes | int | 1048576 | [1,...]
transaction.abort.timed.out.transaction.cleanup.interval.ms | int | 10000 | [1,...]
transaction.state.log.load.buffer.size | int | 5242880 | [1,...]
"""  # noqa: E501


def _rule(text: str) -> Rule | None:
    """Read "[1,...]", "[1,...,9]", "[a, b]" and "(case insensitive) [a, b]"."""
    if not text:
        return None
    number = re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\]", text)
    if number:
        return Range(_number(number[1]), _number(number[2]) if number[2] else None)
    insensitive, _, words = text.rpartition("[")
    return OneOf(tuple(words.rstrip("]").split(", ")), ignore_case=bool(insensitive))


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _setting(row: str) -> Setting:
    name, kind, default, allowed, mode, *_ = [*(cell.strip() for cell in row.split(" | ")), "", ""]
    return Setting(
        name,
        SettingType[kind.upper()],
        None if default == NOT_SET else "" if default == EMPTY else default,
        _rule(allowed),
        mode=UpdateMode(mode or "read-only"),
    )


ACCEPTED_SETTINGS: Final = table(_setting(row) for row in _ROWS.strip().splitlines())
