"""kafka-delete-records: delete the records before an offset in each of the partitions that a JSON file names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition


class PartitionOffset(msgspec.Struct):
    """One entry of the file."""

    topic: str
    partition: int
    offset: int


class OffsetFile(msgspec.Struct):
    """The file."""

    partitions: list[PartitionOffset]
    version: int = 1


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin
    from tidelog.client.errors import Rejected

    parser = KafkaParser("kafka-delete-records", "Deletes records of partitions up to an offset.")
    parser.bootstrap()
    parser.option(
        "--offset-json-file", "FILE", '{"partitions": [{"topic": "a", "partition": 0, "offset": 1}], "version": 1}'
    )
    options = parser.read(arguments)
    parser.require(options, "bootstrap-server", "offset-json-file")
    offsets = read_offsets(options.offset_json_file)
    with cluster_of(options) as cluster:
        print("Executing records delete operation")
        answers = Admin(cluster).delete_records(offsets)
        print("Records delete operation completed:")
        for partition, answer in answers.items():
            if isinstance(answer, Rejected):
                print(f"partition: {partition}\terror: {answer}")
            else:
                print(f"partition: {partition}\tlow_watermark: {answer}")
    return 0


def read_offsets(file: str) -> dict[TopicPartition, Offset]:
    """The partitions and offsets in a file; BadInput for what is no such file."""
    try:
        content = Path(file).read_bytes()
    except OSError:
        raise BadInput(f"Unable to read file {file}") from None
    try:
        read = msgspec.json.decode(content, type=OffsetFile)
    except msgspec.ValidationError as error:
        raise BadInput(f"The input string is not a valid list of offsets: {error}") from None
    except msgspec.DecodeError:
        raise BadInput("The input string is not a valid JSON") from None
    if read.version != 1:
        raise BadInput(f"Not supported version field value {read.version}")
    keys = [TopicPartition(TopicName(entry.topic), PartitionIndex(entry.partition)) for entry in read.partitions]
    twice = [str(key) for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise BadInput(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return {key: Offset(entry.offset) for key, entry in zip(keys, read.partitions, strict=True)}
