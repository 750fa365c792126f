"""Whatever commands come, in whatever order: what always holds of the cluster, and the log alone builds it again."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.controller_desk import EPOCH, Desk
from tidelog.controller import brokers, producer_ids
from tidelog.controller.settings import Alteration, Operation, alter
from tidelog.controller.state import Controller
from tidelog.controller.topics import MorePartitions, NewTopic, add_partitions, create, delete
from tidelog.metadata.delta import difference
from tidelog.metadata.image import EMPTY, ClusterImage, ConfigResource, ResourceType
from tidelog.metadata.replay import replay
from tidelog.metadata.snapshot import records_of
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NO_NODE, NodeId, Offset

NODES = st.integers(1, 4)
NAMES = st.sampled_from(["first", "second", "third", "a.b", "a_b", "no good"])
KEYS = st.sampled_from(["retention.ms", "unclean.leader.election.enable", "min.insync.replicas", "cleanup.policy"])
VALUES = st.sampled_from(["1", "2", "true", "false", "compact"])


class History(RuleBasedStateMachine):
    """Random commands against a cluster of up to four brokers."""

    @initialize(racks=st.dictionaries(NODES, st.sampled_from("ab")))
    def begin(self, racks: dict[int, str]) -> None:
        self.desk = Desk(nodes=(1, 2, 3), racks=racks)
        self.desk.run(create, [NewTopic("first", 2, 3), NewTopic("second", 2, 2)])
        self.racks = racks
        self.seen: list[ClusterImage] = []
        self.next_producer_id = 0

    @rule(name=NAMES, partitions=st.integers(-1, 5), factor=st.integers(-1, 4), validate_only=st.booleans())
    def create(self, name: str, partitions: int, factor: int, validate_only: bool) -> None:
        before = self.desk.image
        (outcome,) = self.desk.run(create, [NewTopic(name, partitions, factor)], validate_only=validate_only)
        if outcome.error is not None or validate_only:
            assert self.desk.image is before
            return
        active = {node for node, broker in before.brokers.items() if broker.active}
        leaders = Counter(
            partition.leader for partition in self.desk.image.topics_by_name[outcome.name].partitions.values()
        )
        assert max(leaders.values()) - min(leaders[node] for node in active) <= 1

    @rule(name=NAMES, replicas=st.lists(st.lists(NODES, max_size=3), min_size=1, max_size=3))
    def create_by_hand(self, name: str, replicas: list[list[int]]) -> None:
        self.desk.run(create, [NewTopic(name, assignments=list(enumerate(replicas)))])

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.desk.run(delete, [name])

    @rule(name=NAMES, total=st.integers(0, 8))
    def add(self, name: str, total: int) -> None:
        self.desk.run(add_partitions, [MorePartitions(name, total)])

    @rule(name=NAMES, key=KEYS, operation=st.sampled_from(Operation), value=VALUES)
    def alter(self, name: str, key: str, operation: Operation, value: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, name)
        self.desk.run(alter, [(resource, [Alteration(key, operation, value)])])

    @rule(node=NODES, ready=st.booleans())
    def register(self, node: int, ready: bool) -> None:
        try:
            wanted = self.desk.registration(node, self.racks.get(node))
            self.desk.run(brokers.register, wanted, self.desk.now_ms, ready=ready)
        except ProtocolError:
            assert NodeId(node) in self.desk.image.brokers

    @precondition(lambda self: self.desk.image.brokers)
    @rule(data=st.data(), fence=st.booleans(), shut_down=st.booleans())
    def beat(self, data: st.DataObject, fence: bool, shut_down: bool) -> None:
        node = data.draw(st.sampled_from(sorted(self.desk.image.brokers)))
        self.desk.beat(node, want_fence=fence, want_shut_down=shut_down)

    @rule(milliseconds=st.integers(0, 10_000))
    def time_passes(self, milliseconds: int) -> None:
        self.desk.now_ms += milliseconds
        while self.desk.run(brokers.fence_silent, self.desk.now_ms) is not None:
            pass

    @precondition(lambda self: len(self.desk.image.brokers) > 2)
    @rule(data=st.data())
    def unregister(self, data: st.DataObject) -> None:
        self.desk.run(brokers.unregister, data.draw(st.sampled_from(sorted(self.desk.image.brokers))))

    @precondition(lambda self: self.desk.image.brokers)
    @rule(data=st.data())
    def allocate(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.desk.image.brokers)))
        block = self.desk.run(producer_ids.allocate, node, self.desk.image.brokers[node].epoch)
        assert block.first == self.next_producer_id
        self.next_producer_id = block.first + block.size

    @rule()
    def fail_over(self) -> None:
        """Another controller takes over, from what was written."""
        self.desk.controller = Controller(self.desk.controller.policy, self.desk.controller.entropy)
        self.desk.controller.replay(self.desk.log, Offset(len(self.desk.log) - 1), EPOCH)

    @invariant()
    def partitions_are_sound(self) -> None:
        image = self.desk.image
        active = {node for node, broker in image.brokers.items() if broker.active}
        for topic in image.topics_by_name.values():
            assert list(topic.partitions) == list(range(len(topic.partitions)))
            for partition in topic.partitions.values():
                assert len(set(partition.replicas)) == len(partition.replicas) == len(partition.directories)
                eligible = partition.eligible_leader_replicas
                assert partition.isr or eligible or partition.last_known_elr
                assert not set(eligible) & set(partition.isr)
                assert set(partition.isr) <= set(partition.replicas)
                assert partition.leader == NO_NODE or partition.leader in partition.isr
                assert partition.leader == NO_NODE or partition.leader in active
                # Who is gone has left the ISR, unless it was the last one in it.
                assert partition.leader == NO_NODE or set(partition.isr) <= active
                # Nobody leads only while nobody who might is there.
                assert partition.leader != NO_NODE or not active & {*partition.isr, *eligible}

    @invariant()
    def both_ways_lead_to_a_topic(self) -> None:
        image = self.desk.image
        assert {topic.topic_id: topic for topic in image.topics_by_name.values()} == image.topics_by_id
        assert all(name == topic.name for name, topic in image.topics_by_name.items())

    @invariant()
    def epochs_never_go_back(self) -> None:
        image = self.desk.image
        if self.seen:
            for topic_id, topic in self.seen[-1].topics_by_id.items():
                now = image.topics_by_id.get(topic_id)
                for index, before in topic.partitions.items() if now else ():
                    after = now.partitions[index]
                    assert after.leader_epoch >= before.leader_epoch
                    assert after.partition_epoch >= before.partition_epoch
                    assert after.leader == before.leader or after.leader_epoch > before.leader_epoch
                    assert after == before or after.partition_epoch > before.partition_epoch
        self.seen.append(image)

    @invariant()
    def what_changed_is_told_exactly(self) -> None:
        if len(self.seen) < 2:
            return
        before, after = self.seen[-2:]
        records = self.desk.log[before.offset + 1 : after.offset + 1]
        assert replay(before, records, after.offset, after.epoch) == difference(before, after)

    def teardown(self) -> None:
        if not hasattr(self, "desk"):
            return
        image, log = self.desk.image, self.desk.log
        end = Offset(len(log) - 1)
        whole = replay(EMPTY, log, end, EPOCH).after
        assert whole == image
        assert replay(EMPTY, records_of(image), end, EPOCH).after == image
        one_by_one = EMPTY
        for offset, record in enumerate(log):
            one_by_one = replay(one_by_one, [record], Offset(offset), EPOCH).after
        assert one_by_one == image
        fresh = Controller(self.desk.controller.policy, self.desk.controller.entropy, image)
        same = self.desk.controller
        assert fresh.names_by_collision_key == same.names_by_collision_key
        assert +Counter(fresh.loads.replicas) == +Counter(same.loads.replicas)
        assert +Counter(fresh.loads.leaders) == +Counter(same.loads.leaders)


TestHistory = pytest.mark.req("F9", "G1", "G3")(History.TestCase)
TestHistory.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
