"""Three brokers with one partition, the real controller, clients, and everything that can go wrong, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from harness.controller_desk import Desk
from harness.replication.node import Node
from harness.replication.referee import Referee, Violation
from harness.replication.stage import TIMEOUT_MS, Network, Stage
from tidelog.broker.handlers.alter_partition import AlterPartitionHandler
from tidelog.controller import brokers
from tidelog.controller.features import ELIGIBLE_LEADER_REPLICAS
from tidelog.controller.leader_changes import rebalance
from tidelog.controller.state import Policy
from tidelog.controller.topics import NewTopic, create
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.machine.runtime import Result
from tidelog.metadata.image import FeatureRange, PartitionRegistration
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, NodeId, Offset, TopicId
from tidelog.model.topic_settings import topic_config, topic_defaults
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.metadata_records import FeatureLevelRecord
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch

NODES: Final = (NodeId(1), NodeId(2), NodeId(3))
CONTROLLER: Final = 0
CLIENT: Final = 9
SESSION_MS: Final = 300
TROUBLE_MS: Final = 2500
HEALING_MS: Final = 500
QUIET_MS: Final = 900
HEALING_MS_MAX: Final = 30_000
ALTER_PARTITION_VERSION: Final = 3
ALL_ACKS: Final = -1
TROUBLES: Final = (
    *("kill", "kill", "power", "power", "blackout", "restart", "restart", "restart"),
    *("cut", "heal", "slow", "prefer"),
)


class World:
    def __init__(self, seed: int) -> None:
        self.stage = stage = Stage(seed)
        self.chance = stage.chance
        self.network = Network(stage)
        # Either every write is synced before it counts, and all may lose power; or a replica that lost power must be in
        # sync again before the next one does.
        self.syncs = self.chance.random() < 0.3
        self.min_isr = self.chance.choice((1, 2))
        self.corrupts = self.chance.random() < 0.2
        overrides = {"min.insync.replicas": str(self.min_isr)}
        if self.syncs:
            overrides["flush.messages"] = "1"
        self.config = topic_config(topic_defaults({}), overrides)
        self.desk = Desk(nodes=(), policy=Policy(broker_session_timeout_ms=SESSION_MS))
        self.eligible_leaders = self.chance.random() < 0.5
        self.desk.run(lambda _: Result([_feature(ELIGIBLE_LEADER_REPLICAS, self.eligible_leaders)], None))
        self.batches: list[tuple[int, list[Any]]] = [(len(self.desk.log), list(self.desk.log))]
        self.referee = Referee(self)
        self.nodes: dict[NodeId, Node] = {}
        self.disks = {node: SimulatedFiles(seed * 10 + node) for node in NODES}
        # Lost power and are not in sync again.
        self.forgetful: set[NodeId] = set()
        self.topic_id: TopicId | None = None
        self.incarnations = 0
        self.healing = False
        self.quiet_until_ms = 0
        self.written = 0
        self.acknowledged = 0
        self.read_offset = Offset(0)
        self.history: list[str] = []

    # The controller

    def partition(self) -> PartitionRegistration:
        return self.desk.partition("tides")

    def command(self, command: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a command of the controller; its records are committed at once."""
        self.desk.now_ms = self.stage.now_ms
        before = len(self.desk.log)
        isr = self.partition().isr if self.topic_id is not None else ()
        try:
            return self.desk.run(command, *args, **options)
        finally:
            records = self.desk.log[before:]
            if records:
                self.batches.append((len(self.desk.log), list(records)))
            if self.topic_id is not None and self.partition().isr != isr:
                self._isr_changed(isr, self.partition().isr)

    def _isr_changed(self, before: tuple[NodeId, ...], after: tuple[NodeId, ...]) -> None:
        self.note(f"isr {before} -> {after}, leader {self.partition().leader}")
        for node_id in set(after) - set(before):
            node = self.nodes[node_id]
            # It is in sync again, and not only believed to be what it was.
            if node.alive and node.broker_epoch == self.desk.image.brokers[node_id].epoch:
                self.forgetful.discard(node_id)
        self.referee.check_isr()

    def ask_controller(self, node: Node, request: AlterPartitionRequest, answer: Callable[[Any], None]) -> None:
        class Commands:
            def submit(_, command: Callable[..., Any], reply: Callable[[Any], None]) -> None:
                try:
                    outcome = self.command(lambda controller: command(controller))
                except ProtocolError as error:
                    outcome = error
                reply(outcome)

        def handle(respond: Callable[[Any], None]) -> None:
            from harness.replication.node import SimulatedCall

            AlterPartitionHandler(Commands())(SimulatedCall(ALTER_PARTITION_VERSION, respond), request)  # type: ignore[arg-type]

        self._ask(node, CONTROLLER, handle, answer)

    def ask_node(self, node: Node, target: NodeId, request: FetchRequest, answer: Callable[[Any], None]) -> None:
        def handle(respond: Callable[[Any], None]) -> None:
            other = self.nodes.get(target)
            if other is not None and other.alive:
                other.do(lambda: other.on_fetch(request, respond))

        self._ask(node, target, handle, answer)

    def _ask(
        self, node: Node, target: int, handle: Callable[[Callable[[Any], None]], None], answer: Callable[[Any], None]
    ) -> None:
        """A request and its answer over the network; None when none comes in time. What is on its way outlives its
        sender."""
        waiting = [True]

        def finish(response: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                node.do(lambda: answer(response))

        def respond(response: Any) -> None:
            self.network.deliver(target, node.node_id, lambda: finish(response))

        self.network.deliver(node.node_id, target, lambda: handle(respond))
        self.stage.after(TIMEOUT_MS, lambda: finish(None))

    def on_the_way(self, records: bytes) -> bytes:
        """Networks and memories flip bits."""
        if not self.corrupts or self.healing or not records or self.chance.random() > 0.1:
            return records
        damaged = bytearray(records)
        # Within what a CRC covers: the first bytes of a batch are the leader's own and covered by nothing.
        damaged[-self.chance.randint(1, min(len(damaged) - 21, 40))] ^= 1 << self.chance.randint(0, 7)
        return bytes(damaged)

    def note(self, what: str) -> None:
        self.history.append(f"{self.stage.now_ms % 100_000_000:>9} {what}")

    # Brokers

    def start(self, node_id: NodeId) -> None:
        self.incarnations += 1
        self.note(f"start {node_id}")
        node = Node(self, node_id, self.disks[node_id], UUID(int=70_000 + self.incarnations))
        self.nodes[node_id] = node
        node.do(node.start)
        self._beat(node)
        self._follow_metadata(node)

    def stop(self, node_id: NodeId, *, power: bool) -> None:
        node = self.nodes[node_id]
        if not node.alive:
            return
        self.note(f"{'power off' if power else 'kill'} {node_id}")
        node.alive = False
        node.directories.abandon()
        self.disks[node_id].locked.clear()
        if power:
            self.disks[node_id].crash()
            if not self.syncs:
                self.forgetful.add(node_id)

    def _beat(self, node: Node) -> None:
        """Register, then heartbeats, over a network that may be cut."""

        def at_controller() -> None:
            if node.broker_epoch < 0:
                self._register(node)
                return
            try:
                self.command(
                    brokers.heartbeat,
                    node.node_id,
                    node.broker_epoch,
                    self.stage.now_ms,
                    metadata_offset=node.publisher.image.offset,
                )
            except ProtocolError:
                self.note(f"heartbeat of {node.node_id} refused")

        def beat() -> None:
            self.network.deliver(node.node_id, CONTROLLER, at_controller)
            node.call_later(0.06, beat)

        node.do(beat)

    def _register(self, node: Node) -> None:
        if not node.alive:
            return
        wanted = self.desk.registration(node.node_id)
        wanted = type(wanted)(
            broker_id=wanted.broker_id,
            epoch=-1,
            incarnation_id=node.incarnation,
            endpoints=wanted.endpoints,
            features={**wanted.features, ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, 1)},
            directories=wanted.directories,
        )
        try:
            epoch = self.command(brokers.register, wanted, self.stage.now_ms)
        except ProtocolError:
            return  # The earlier incarnation is still believed to be alive.

        def learn() -> None:
            node.broker_epoch = epoch
            node.metadata_arrived()

        self.network.deliver(CONTROLLER, node.node_id, lambda: node.do(learn))

    def _follow_metadata(self, node: Node) -> None:
        def at_controller() -> None:
            news = self.batches[node.seen :]
            first = node.seen

            def arrive() -> None:
                if node.seen != first:
                    return
                for end, records in news[: self.chance.randint(1, 4)]:
                    node.seen += 1
                    node.publisher.apply(records, Offset(end - 1), self.desk.image.epoch)
                node.metadata_arrived()

            if news:
                self.network.deliver(CONTROLLER, node.node_id, lambda: node.do(arrive))

        def ask() -> None:
            if node.seen < len(self.batches):
                self.network.deliver(node.node_id, CONTROLLER, at_controller)
            node.call_later(self.chance.randint(10, 60) / 1000, ask)

        node.do(ask)

    def _fence(self) -> None:
        while self.command(brokers.fence_silent, self.stage.now_ms) is not None:
            pass
        self.stage.after(50, self._fence)

    # Clients

    def _leader_as_somebody_sees_it(self) -> tuple[Node, PartitionRegistration] | None:
        """A client's metadata comes from any broker, and may be old."""
        alive = [node for node in self.nodes.values() if node.alive]
        if not alive:
            return None
        partition = self.chance.choice(alive).publisher.image.partition("tides", 0)
        if partition is None or partition.leader == NO_NODE or not self.nodes[partition.leader].alive:
            return None
        return self.nodes[partition.leader], partition

    def _produce(self) -> None:
        if self.healing:
            return
        quiet = self.chance.random() < 0.03
        self.stage.after(self.chance.randint(200, 1000) if quiet else self.chance.randint(1, 40), self._produce)
        found = self._leader_as_somebody_sees_it()
        if found is None or self.topic_id is None or self.stage.now_ms < self.quiet_until_ms:
            return
        node, _ = found
        self.written += 1
        values = [b"%d.%d" % (self.written, number) for number in range(self.chance.randint(1, 3))]
        batch = build_batch([Record(0, self.stage.now_ms, None, value) for value in values])
        acks = ALL_ACKS if self.chance.random() < 0.85 else 1
        request = ProduceRequest(
            None,
            acks,
            1000,
            [
                TopicProduceData(
                    topic_id=self.topic_id, partition_data=[PartitionProduceData(0, memoryview(bytearray(batch)))]
                )
            ],
        )

        def answered(response: ProduceResponse) -> None:
            self.referee.look_at(node)
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NONE and acks == ALL_ACKS:
                for number, value in enumerate(values):
                    self.acknowledged += 1
                    self.referee.acknowledged(value, Offset(answer.base_offset + number))

        self.network.deliver(CLIENT, node.node_id, lambda: node.do(lambda: node.on_produce(request, answered)))

    def _consume(self) -> None:
        if self.healing:
            return
        self.stage.after(self.chance.randint(10, 60), self._consume)
        found = self._leader_as_somebody_sees_it()
        if found is None or self.topic_id is None:
            return
        node, partition = found
        if self.chance.random() < 0.3:
            node = self.nodes[self.chance.choice(NODES)]
        if not node.alive:
            return
        offset = self.read_offset if self.chance.random() < 0.7 else Offset(self.chance.randint(0, self.read_offset))
        request = FetchRequest(
            topics=[
                FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[FetchPartition(0, partition.leader_epoch, offset, partition_max_bytes=10_000)],
                )
            ],
        )

        def answered(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    self._read(node, partition, offset, data.error_code, data.records)

        self.network.deliver(CLIENT, node.node_id, lambda: node.do(lambda: node.on_fetch(request, answered)))

    def _read(self, node: Node, partition: PartitionRegistration, offset: Offset, code: int, records: Any) -> None:
        is_leader = node.node_id == partition.leader and partition.leader_epoch == self.partition().leader_epoch
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and is_leader:
            raise Violation(f"offset {offset} was read before and is out of range at the leader {node.node_id}")
        if not code and records and not self.corrupts:
            following = self.referee.observed(bytes(records))
            self.read_offset = max(self.read_offset, following or Offset(0))

    # Trouble

    def _trouble(self) -> None:
        if self.healing:
            return
        self.stage.after(self.chance.randint(20, 400), self._trouble)
        if self.forgetful & set(self.partition().isr):
            return  # Until the controller knows that it may have lost something, the others must not go.
        node_id = self.chance.choice(NODES)
        match self.chance.choice(TROUBLES):
            case "kill":
                self.stop(node_id, power=False)
            case "power" if self._may_lose_power(node_id):
                self.stop(node_id, power=True)
                if self.chance.random() < 0.7:
                    self.stage.after(self.chance.randint(0, 500), lambda: self._restart(node_id))
                if self.chance.random() < 0.5:
                    # The leader does not hear how little is left, and nothing is written that would tell it.
                    self.network.cut.add((node_id, self.partition().leader))
                    self.quiet_until_ms = self.stage.now_ms + QUIET_MS
            case "blackout" if self.syncs:
                for one in NODES:
                    self.stop(one, power=True)
                    self.stage.after(self.chance.randint(0, 300), lambda one=one: self._restart(one))  # type: ignore[misc]
            case "restart":
                self._restart(node_id)
            case "cut":
                self._cut(node_id)
            case "heal":
                self.note("heal")
                self.network.heal()
            case "slow":
                other = self.chance.choice((*NODES, CONTROLLER))
                self.network.slow.add((node_id, other))
            case "prefer":
                self.command(rebalance)

    def _restart(self, node_id: NodeId) -> None:
        if not self.nodes[node_id].alive:
            self.start(node_id)

    def _cut(self, node_id: NodeId) -> None:
        other = self.chance.choice((*NODES, CONTROLLER))
        self.note(f"cut {node_id} {other}")
        self.network.cut.add((node_id, other))
        if self.chance.random() < 0.7:
            self.network.cut.add((other, node_id))

    def _may_lose_power(self, node_id: NodeId) -> bool:
        """Without syncs, what is committed lies in the page caches of the ISR: one of them must keep it, and stay."""
        if self.syncs:
            return True
        partition = self.partition()
        isr = partition.isr
        may_lead = {*isr, *partition.eligible_leader_replicas, *partition.last_known_elr}
        others = [self.nodes[other] for other in isr if other != node_id]
        troubled = {node for link in (*self.network.cut, *self.network.slow) if CONTROLLER in link for node in link}
        return not self.forgetful - {node_id} and (
            node_id not in may_lead or any(other.alive and other.node_id not in troubled for other in others)
        )

    # A run

    def run(self) -> None:
        stage = self.stage
        for node in NODES:
            self.start(node)
        stage.after(50, self._fence)
        stage.run_until(stage.now_ms + 300)
        self.command(create, [NewTopic("tides", assignments=[(0, list(NODES))], settings=self._settings())])
        topic = self.desk.image.topic("tides")
        assert topic is not None
        self.topic_id = topic.topic_id
        for act in (self._produce, self._produce, self._consume, self._trouble):
            stage.after(self.chance.randint(0, 50), act)
        stage.run_until(stage.now_ms + TROUBLE_MS)
        self._heal()
        self.referee.finish()

    def _settings(self) -> list[tuple[str, str | None]]:
        return [("min.insync.replicas", str(self.min_isr))]

    def _heal(self) -> None:
        """Everybody comes back, and nothing is written any more: all must agree before long."""
        self.healing = True
        self.note("all is healed")
        self.network.heal()
        for node in NODES:
            if not self.nodes[node].alive:
                self.start(node)
        deadline = self.stage.now_ms + HEALING_MS_MAX
        self.stage.run_until(self.stage.now_ms + HEALING_MS)
        while not self._is_whole():
            if self.stage.now_ms > deadline:
                raise Violation(f"not whole again {HEALING_MS_MAX} ms after all was healed: {self.partition()}")
            self.stage.run_until(self.stage.now_ms + 200)

    def _is_whole(self) -> bool:
        replicas = [replica for node in self.nodes.values() for replica in node.partitions.replicas()]
        offsets = {offset for replica in replicas for offset in (replica.log.end_offset, replica.high_watermark)}
        return len(self.partition().isr) == len(replicas) == len(NODES) and len(offsets) == 1


def _feature(name: str, is_on: bool) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=int(is_on))


def run(seed: int) -> World:
    world = World(seed)
    try:
        world.run()
    except AssertionError as error:
        story = "\n".join(world.history[-40:])
        kind = f"sync {world.syncs}, min ISR {world.min_isr}, ELR {world.eligible_leaders}"
        raise Violation(f"seed {seed} ({kind}): {error}\n{story}") from error
    return world
