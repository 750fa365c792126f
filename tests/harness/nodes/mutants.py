"""Mistakes that the simulation of whole nodes must find. Each replaces one thing that a real node does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

from tidelog.broker import lifecycle
from tidelog.broker.peers import Peer
from tidelog.broker.raft import snapshots
from tidelog.broker.raft.metadata_log import MetadataLog
from tidelog.controller import leadership
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.snapshot import records_of
from tidelog.raft import leading
from tidelog.replica.fetcher import Fetcher
from tidelog.replica.in_sync import InSync
from tidelog.wire.schema import Message


def _nothing(*arguments: Any, **keywords: Any) -> None:
    return None


def _own_end(node: Any, role: Any) -> Any:
    return node.synced_end


def _but_the_last(image: ClusterImage) -> Iterator[Message]:
    return iter(list(records_of(image))[:-1])


def _nobody_leaves(*arguments: Any, **keywords: Any) -> Iterator[Message]:
    return iter(())


MUTANTS: Final[dict[str, AbstractContextManager[Any]]] = {
    "the quorum acknowledges before the disk has it": patch.object(MetadataLog, "flush", _nothing),
    "the leader of the quorum commits what it alone has": patch.object(leading, "majority_end", _own_end),
    "a snapshot leaves something out": patch.object(snapshots, "records_of", _but_the_last),
    "a broker that comes back keeps leading what it may have lost": patch.object(
        leadership, "departed", _nobody_leaves
    ),
    "who hears nothing from another node waits for ever": patch.object(Peer, "_on_alarm", _nothing),
    "a broker that is not registered does not ask again": patch.object(lifecycle, "RETRY_SECONDS", 1e9),
    "a broker whose sign of life was lost gives no other": patch.object(lifecycle.BrokerLife, "_again", _nothing),
    "a follower that synced first does not go on": patch.object(Fetcher, "resume", _nothing),
    "a leader acknowledges what no follower has": patch.object(InSync, "lowest_end", lambda self, own_end: own_end),
}
