"""A member of a group by our own client. Events and options: see reporting.py."""

from __future__ import annotations

import re

from reporting import POLL_SECONDS, Consumed, Stop, emit, emit_committed, options, places

from tidelog.client.admin import Admin
from tidelog.client.cluster import Cluster
from tidelog.client.consumer import OffsetReset
from tidelog.client.errors import ClientError
from tidelog.client.group_consumer import GroupConsumer
from tidelog.model.ids import TopicName, TopicPartition


def main() -> None:
    given = options()
    stop = Stop()
    cluster = Cluster(given.bootstrap_server)

    def topics() -> list[TopicName]:
        if not given.topic.startswith("^"):
            return [TopicName(given.topic)]
        return [topic.name for topic in Admin(cluster).list_topics() if re.match(given.topic, topic.name)]

    client = GroupConsumer(
        cluster,
        given.group_id,
        topics,
        offset_reset=OffsetReset[given.reset_policy.upper()],
        session_s=given.session_timeout / 1000,
        heartbeat_s=max(given.session_timeout / 6000, 0.1),
        commit_s=0.5 if given.enable_autocommit else None,
    )
    emit("startup_complete")
    owned: list[TopicPartition] | None = None
    while not stop.wanted:
        records = client.poll(POLL_SECONDS)
        if client.assignment != owned:
            if owned:
                emit("partitions_revoked", partitions=places(owned))
            owned = list(client.assignment)
            emit("partitions_assigned", partitions=places(owned))
        consumed = Consumed()
        for record in records:
            consumed.add(record.topic, record.partition, record.offset)
            client.done(record)
        if consumed.ranges:
            consumed.emit()
            if not given.enable_autocommit:
                try:
                    client.commit()
                    emit_committed(consumed.next_offsets())
                except ClientError as error:
                    emit_committed(consumed.next_offsets(), error)
    client.close()
    cluster.close()
    emit("shutdown_complete")


if __name__ == "__main__":
    main()
