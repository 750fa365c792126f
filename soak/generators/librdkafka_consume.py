"""librdkafka reads all partitions of a topic from the beginning and writes down what it sees.

A live reader reads until asked to stop. One of the whole log reads to the end as it is now, and says that it did.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from soak.generators import UntilAsked, history_path, work_from_arguments
from soak.history import HistoryWriter, Seen, Whole, name_in

READ_SECONDS_MAX = 80.0
ASK_SECONDS_MAX = 20.0
RECORDS_AT_ONCE = 2_000
GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class Work(msgspec.Struct, frozen=True):
    bootstrap_servers: str
    topic: str
    partitions: int
    consumer: str
    history_folder: str
    whole: bool = False
    settings: dict[str, str] = {}


class Reader:
    """One consumer and its history."""

    def __init__(self, work: Work, history: HistoryWriter) -> None:
        self.work = work
        self.history = history
        self.next = dict.fromkeys(range(work.partitions), 0)
        self.consumer = Consumer(
            {
                "bootstrap.servers": work.bootstrap_servers,
                "client.id": work.consumer,
                "group.id": work.consumer,
                "enable.auto.commit": False,
                # A reader that is sent elsewhere would hide what is gone.
                "auto.offset.reset": "error",
                "check.crcs": True,
                "log_level": 0,
                **work.settings,
            }
        )

    def read(self) -> None:
        for message in self.consumer.consume(RECORDS_AT_ONCE, 0.1):
            error = message.error()
            if error is not None:
                if error.code() in GONE:
                    raise RuntimeError(f"what {self.work.consumer} had read is gone: {error.str()}")
                continue
            name = name_in(message.value())
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None and partition is not None and offset is not None, "it has been read"
            self.history.write(Seen(self.work.consumer, topic, partition, offset, *name))
            self.next[partition] = offset + 1

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Where each partition begins and ends."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        while True:
            try:
                return {
                    index: self.consumer.get_watermark_offsets(
                        TopicPartition(self.work.topic, index), timeout=ASK_SECONDS_MAX, cached=False
                    )
                    for index in range(self.work.partitions)
                }
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def run(work: Work) -> None:
    until = UntilAsked()
    with history_path(Path(work.history_folder), work.consumer).open("wb") as file:
        reader = Reader(work, HistoryWriter(file))
        places = [TopicPartition(work.topic, index, 0) for index in range(work.partitions)]
        if not work.whole:
            reader.consumer.assign(places)
            while not until.asked:
                reader.read()
        else:
            _read_whole(reader, places)
        reader.consumer.close()


def _read_whole(reader: Reader, places: list[TopicPartition]) -> None:
    bounds = reader.bounds()
    for place in places:
        place.offset = reader.next[place.partition] = bounds[place.partition][0]
    reader.consumer.assign(places)
    deadline = time.monotonic() + READ_SECONDS_MAX
    while any(reader.next[index] < end for index, (_, end) in bounds.items()):
        reader.read()
        if time.monotonic() > deadline:
            raise RuntimeError(f"the end was not reached: {reader.next} of {bounds}")
    for index, (begin, end) in bounds.items():
        reader.history.write(Whole(reader.work.consumer, reader.work.topic, index, begin, end))


if __name__ == "__main__":
    run(work_from_arguments(Work))
