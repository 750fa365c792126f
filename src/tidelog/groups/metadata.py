"""Which changes of the cluster concern groups. The edge asks once for all its shards."""

from __future__ import annotations

from tidelog.metadata.delta import Delta


def topics_changed(delta: Delta) -> bool:
    """Whether topics came, went or grew; a new leader of a partition means nothing to a group."""
    if delta.topics_created or delta.topics_removed:
        return True
    before, after = delta.before.topics_by_id, delta.after.topics_by_id
    return any(
        len(before[topic_id].partitions) != len(after[topic_id].partitions) for topic_id in delta.partitions_changed
    )
