"""What the driver asks the cluster before it plans: which partitions there are, where they begin and end, by time.

Used by both readers. One connection for as long as the object lives; it never travels to an executor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.client.errors import Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicName, TopicPartition
from tidelog.spark.connecting import cluster_at
from tidelog.spark.errors import InvalidOption
from tidelog.spark.options import Assigned, Bound, Ends, Named, Pattern, ReadOptions, Times, Topics
from tidelog.spark.positions import Positions


class LogEnds:
    """Asks about the partitions that the options select."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = cluster_at(
            options.bootstrap_servers,
            options.protection,
            client_id=options.client_id,
            request_timeout_s=options.request_timeout_s,
        )
        self._admin = Admin(self._cluster)

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    def close(self) -> None:
        self._cluster.close()

    def partitions(self) -> list[TopicPartition]:
        """What is to be read as it is now; topics and partitions that are added are seen the next time."""
        match self._options.selection:
            case Assigned(partitions):
                return list(partitions)
            case Topics(names):
                return self._partitions_of(names)
            case Pattern(expression):
                whole = re.compile(expression)
                # As in Spark's connector, internal topics are not meant by a pattern.
                known = [topic for topic in self._admin.list_topics() if not topic.internal]
                return sorted(
                    TopicPartition(topic.name, partition.index)
                    for topic in known
                    if whole.fullmatch(topic.name)
                    for partition in topic.partitions
                )

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return self._ends(partitions, EARLIEST)

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The end of what may be read: the high watermark, or the last stable offset when only committed is read."""
        return self._ends(partitions, LATEST)

    def resolve(self, bound: Bound, partitions: list[TopicPartition], option: str) -> Positions:
        """An offset for each partition, as the bound says it."""
        match bound:
            case Ends(end):
                return self._ends(partitions, end)
            case Named(offsets):
                self._same(offsets, partitions, option)
                asked = {partition: at for partition, at in offsets.items() if at < 0}
                by_end = {end: [one for one, at in asked.items() if at == end] for end in (EARLIEST, LATEST)}
                found = {end: self._ends(ones, end) for end, ones in by_end.items() if ones}
                return {partition: found[at][partition] if at < 0 else Offset(at) for partition, at in offsets.items()}
            case Times():
                return self._at_times(bound, partitions, option)

    def _partitions_of(self, names: Iterable[TopicName]) -> list[TopicPartition]:
        self._cluster.forget()
        found: list[TopicPartition] = []
        for name in sorted(set(names)):
            topic = self._cluster.retry(lambda deadline, name=name: self._cluster.topic(name, deadline))  # type: ignore[misc]
            found += [TopicPartition(topic.name, partition.index) for partition in topic.partitions]
        return found

    def _ends(self, partitions: Iterable[TopicPartition], end: int) -> Positions:
        return self._listed(dict.fromkeys(partitions, end))

    def _at_times(self, times: Times, partitions: list[TopicPartition], option: str) -> Positions:
        asked: dict[TopicPartition, int] = {}
        for partition in partitions:
            timestamp_ms = times.of(partition)
            if timestamp_ms is None:
                raise InvalidOption(f"Option {option} has no time for {partition}, which is read.")
            asked[partition] = timestamp_ms
        found = self._listed(asked)
        late = [partition for partition, offset in found.items() if offset < 0]
        if late and not times.or_latest:
            partition = late[0]
            message = f"{partition} has no record at or after {asked[partition]} ms ({option})."
            raise InvalidOption(f"{message} With startingOffsetsByTimestampStrategy=latest its end is taken.")
        return found | self._ends(late, LATEST)

    def _listed(self, timestamps: Mapping[TopicPartition, int]) -> Positions:
        if not timestamps:
            return {}
        answers = self._admin.list_offsets(timestamps, read_committed=self._options.read_committed)
        found: Positions = {}
        for partition in timestamps:
            try:
                found[partition] = accepted(answers[partition]).offset
            except Rejected as error:
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise Rejected(error.code, f"Partition {partition} does not exist.") from None
                raise
        return found

    @staticmethod
    def _same(offsets: Mapping[TopicPartition, Offset], partitions: list[TopicPartition], option: str) -> None:
        missing = sorted(set(partitions) - offsets.keys())
        unknown = sorted(offsets.keys() - set(partitions))
        if missing:
            raise InvalidOption(f"Option {option} has no offset for {missing[0]}, which is read (-2 is its begin).")
        if unknown:
            raise InvalidOption(f"Option {option} has an offset for {unknown[0]}, which is not read.")
