"""librdkafka produces to the partitions of a replicated topic with acks=all, as fast as the cluster takes it."""

from __future__ import annotations

import time

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from bench.generators import Measured, load_from_arguments, print_result
from bench.process import CpuTime, cpu_time

RECORDS_AT_ONCE = 2_000
QUEUED_RECORDS_MAX = 100_000
FLUSH_SECONDS_MAX = 200


class Load(msgspec.Struct, frozen=True):
    bootstrap_servers: str
    broker_pids: list[int]
    topic: str
    partitions: int
    records: int
    record_bytes: int


class Sent(Measured, frozen=True):
    megabytes: float

    @property
    def megabytes_per_second(self) -> float:
        return self.megabytes / self.seconds

    @property
    def cpu_seconds_per_gigabyte(self) -> float:
        return self.broker_cpu_seconds / self.megabytes * 1e3


def run(load: Load) -> Sent:
    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": load.bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUED_RECORDS_MAX * 2,
            "queue.buffering.max.kbytes": 1 << 20,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
            "log_level": 0,
        }
    )
    producer.list_topics(load.topic, timeout=30)
    value = bytes(index * 31 % 251 for index in range(load.record_bytes))
    records = [{"value": value}] * RECORDS_AT_ONCE
    own, before, began = time.process_time(), _cpu(load.broker_pids), time.perf_counter()
    produced = turn = 0
    while produced < load.records:
        if len(producer) > QUEUED_RECORDS_MAX:
            producer.poll(0.001)
            continue
        count = min(RECORDS_AT_ONCE, load.records - produced)
        produced += producer.produce_batch(load.topic, records[:count], partition=turn % load.partitions)
        turn += 1
    left = producer.flush(FLUSH_SECONDS_MAX)
    seconds = time.perf_counter() - began
    cpu = _cpu(load.broker_pids).since(before)
    if left or failed:
        raise RuntimeError(f"{left} records are not acknowledged, {len(failed)} failed: {failed[:1]}")
    return Sent(seconds, cpu.user, cpu.system, time.process_time() - own, load.records * load.record_bytes / 1e6)


def _cpu(pids: list[int]) -> CpuTime:
    times = [cpu_time(pid) for pid in pids]
    return CpuTime(sum(one.user for one in times), sum(one.system for one in times))


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
