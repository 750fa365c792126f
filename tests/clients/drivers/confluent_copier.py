"""A program that copies records from one topic to another, exactly once, with confluent-kafka; made to be killed.

    python confluent_copier.py <bootstrap servers> <from> <to> <transactional id> <records per transaction>

It reads the only partition of its input from the group's offset to the end that the partition has now, commits each
lot of records together with that offset, and prints a line for it. Started again it goes on where the last commit was.
Whoever runs it must watch it: librdkafka 2 at times does not send TxnOffsetCommit any more once a broker has
restarted, Apache Kafka's like ours, and its call does not even come back when its time is over.
"""

from __future__ import annotations

import os
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SECONDS_MAX = 60.0
GIVE_UP_SECONDS = 4.0
# A broker that was killed is back within a second: do not wait longer than that.
QUICK_TO_RETURN = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 300, "retry.backoff.ms": 50}


def copy(bootstrap_servers: str, source: str, target: str, transactional_id: str, lot: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 20_000,
            "linger.ms": 1,
            **QUICK_TO_RETURN,
        }
    )
    retried(lambda: producer.init_transactions(SECONDS_MAX))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": transactional_id,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            **QUICK_TO_RETURN,
        }
    )
    partition = TopicPartition(source, 0)
    _, end = consumer.get_watermark_offsets(partition, SECONDS_MAX)
    position = max(consumer.committed([partition], SECONDS_MAX)[0].offset, 0)
    partition.offset = position
    consumer.assign([partition])
    while position < end:
        messages = []
        while len(messages) < lot and position + len(messages) < end:
            messages += [each for each in consumer.consume(lot - len(messages), 1.0) if each.error() is None]
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), message.key(), partition=0)
        partition.offset = messages[-1].offset() + 1
        try:
            retried(lambda: send_position(producer, consumer, partition))
            retried(lambda: producer.commit_transaction(GIVE_UP_SECONDS))
            position = partition.offset
            print(position, flush=True)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            retried(lambda: producer.abort_transaction(GIVE_UP_SECONDS))
            partition.offset = position
            consumer.seek(partition)


def send_position(producer: Producer, consumer: Consumer, partition: TopicPartition) -> None:
    producer.send_offsets_to_transaction([partition], consumer.consumer_group_metadata(), GIVE_UP_SECONDS)


def retried(call: object) -> None:
    """The documentation of the client asks to call again while it says so."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        try:
            call()  # type: ignore[operator]
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


if __name__ == "__main__":
    try:
        copy(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    except KafkaException as error:
        print(error, file=sys.stderr, flush=True)
        # At once: taking the client down in order would wait for the call that does not come back.
        os._exit(1)
