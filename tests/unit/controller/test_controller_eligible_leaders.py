from __future__ import annotations

import msgspec
import pytest

from harness.controller_desk import Desk
from tidelog.controller import brokers
from tidelog.controller.features import ELIGIBLE_LEADER_REPLICAS, SUPPORTED
from tidelog.controller.settings import Alteration, Operation, alter
from tidelog.controller.topics import NewTopic, create
from tidelog.machine.runtime import Result
from tidelog.metadata.image import ConfigResource, FeatureRange, ResourceType
from tidelog.model.ids import NO_NODE, NodeId
from tidelog.wire.messages.metadata_records import FeatureLevelRecord

SESSION_MS = 10_000


def desk() -> Desk:
    """Three brokers, one partition of which two replicas must be in sync, eligible leaders remembered."""
    made = Desk(nodes=(1, 2, 3))
    made.run(lambda _: Result([FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1)], None))
    settings = [("min.insync.replicas", "2")]
    made.run(create, [NewTopic("tides", assignments=[(0, [1, 2, 3])], settings=settings)])
    return made


def restart(cluster: Desk, node: int, *, cleanly: bool) -> None:
    """Register the next incarnation of a broker, and let it in."""
    cluster.now_ms += SESSION_MS
    wanted = msgspec.structs.replace(
        cluster.registration(node),
        epoch=cluster.image.brokers[NodeId(node)].epoch if cleanly else -1,
        features={**SUPPORTED, ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, 1)},
    )
    cluster.run(brokers.register, wanted, cluster.now_ms)
    cluster.beat(node)


def test_who_leaves_an_isr_that_is_too_small_to_commit_may_still_lead() -> None:
    cluster = desk()
    for node in (3, 2):
        cluster.beat(node, want_fence=True)
    assert cluster.partition("tides").isr == (1,)
    assert cluster.partition("tides").eligible_leader_replicas == (2,), "three left when two were still enough"
    cluster.beat(1, want_fence=True)
    assert cluster.partition("tides").leader == NO_NODE
    restart(cluster, 2, cleanly=True)
    assert cluster.partition("tides").leader == 2


def test_who_did_not_stop_cleanly_may_have_lost_what_it_had_and_does_not_lead() -> None:
    cluster = desk()
    for node in (3, 2, 1):
        cluster.beat(node, want_fence=True)
    restart(cluster, 2, cleanly=False)
    assert cluster.partition("tides").eligible_leader_replicas == (1,)
    assert cluster.partition("tides").leader == NO_NODE
    restart(cluster, 1, cleanly=True)
    assert cluster.partition("tides").leader == 1


def test_when_nobody_is_eligible_any_more_the_last_leader_is_waited_for() -> None:
    cluster = desk()
    for node in (3, 2, 1):
        cluster.beat(node, want_fence=True)
    for node in (2, 3):
        restart(cluster, node, cleanly=False)
    assert cluster.partition("tides").leader == NO_NODE
    restart(cluster, 1, cleanly=False)
    assert cluster.partition("tides").leader == 1


@pytest.mark.parametrize(("setting", "remembered"), [("min.insync.replicas", ()), ("retention.ms", (2,))])
def test_another_floor_for_the_isr_makes_nobody_eligible(setting: str, remembered: tuple[int, ...]) -> None:
    cluster = desk()
    for node in (3, 2):
        cluster.beat(node, want_fence=True)
    topic = ConfigResource(ResourceType.TOPIC, "tides")
    cluster.run(alter, [(topic, [Alteration(setting, Operation.SET, "1")])])
    assert cluster.partition("tides").eligible_leader_replicas == remembered


def test_another_floor_forgets_nobody_where_nobody_is_in_sync() -> None:
    """Nothing becomes committed there, so that those who were eligible still have all that is."""
    cluster = desk()
    for node in (3, 2, 1):
        cluster.beat(node, want_fence=True)
    before = cluster.partition("tides")
    assert before.isr == ()
    topic = ConfigResource(ResourceType.TOPIC, "tides")

    cluster.run(alter, [(topic, [Alteration("min.insync.replicas", Operation.SET, "1")])])

    after = cluster.partition("tides")
    assert after.eligible_leader_replicas == before.eligible_leader_replicas != ()
    cluster.beat(1)
    assert cluster.partition("tides").leader == 1
