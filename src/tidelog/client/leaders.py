"""Ask the leaders of many partitions the same thing, and again where one has moved, until time is up.

Used by `admin.py` and `consumer.py` for requests that only a partition's leader answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TypeVar

from tidelog.client.cluster import Cluster
from tidelog.client.core.metadata import Node
from tidelog.client.deadline import Deadline
from tidelog.client.errors import ClientError, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

Q = TypeVar("Q")
T = TypeVar("T")

Ask = Callable[[Node, Mapping[TopicPartition, Q], Deadline], Mapping[TopicPartition, T | Rejected]]


def ask_leaders(
    cluster: Cluster, questions: Mapping[TopicPartition, Q], ask: Ask[Q, T], deadline: Deadline
) -> dict[TopicPartition, T | Rejected]:
    """One answer for each partition. A partition that does not exist is not waited for."""
    answers: dict[TopicPartition, T | Rejected] = {}
    pending = dict(questions)
    while pending:
        failure: ClientError | None = None
        try:
            nodes = _by_leader(cluster, pending, answers, deadline)
        except ClientError as error:
            if not error.retriable:
                raise
            failure, nodes = error, {}
        for node, of_node in nodes.items():
            try:
                answered = ask(node, of_node, deadline)
            except ClientError as error:
                if not error.retriable:
                    raise
                failure = error
                continue
            answers.update(answered)
        pending = {partition: question for partition, question in pending.items() if _open(answers.get(partition))}
        if pending and not deadline.pause():
            if failure is not None and not answers.keys() >= pending.keys():
                raise failure
            return answers
        cluster.forget({partition.topic for partition in pending})
    return answers


def _open(answer: object) -> bool:
    return answer is None or (
        isinstance(answer, Rejected) and answer.retriable and answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _by_leader(
    cluster: Cluster,
    pending: Mapping[TopicPartition, Q],
    answers: dict[TopicPartition, T | Rejected],
    deadline: Deadline,
) -> dict[Node, dict[TopicPartition, Q]]:
    unknown = {partition.topic for partition in pending} - cluster.view.topics.keys()
    if unknown:
        cluster.refresh(sorted(unknown), deadline)
    nodes: defaultdict[Node, dict[TopicPartition, Q]] = defaultdict(dict)
    for partition, question in pending.items():
        try:
            nodes[cluster.leader(partition, deadline)][partition] = question
        except Rejected as error:
            answers[partition] = error
    return nodes
