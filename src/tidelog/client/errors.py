"""What goes wrong between a client and a cluster, as exceptions whose text is a sentence for people.

Raised by the fronts of this package (connection, cluster, admin, producer, consumer); the pure core raises none of the
network's.
"""

from __future__ import annotations

from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.model.ids import Offset, TopicPartition


class ClientError(Exception):
    """Anything a caller of this package has to expect. `retriable` says whether another try may succeed."""

    retriable = False


class BrokerUnreachable(ClientError):
    """No connection, or one that broke."""

    retriable = True


class NoBrokerReachable(BrokerUnreachable):
    """None of the bootstrap servers answers."""


class AuthenticationFailed(ClientError):
    """The broker does not accept who the client says it is, or cannot show who it is itself."""


class RequestExpired(ClientError):
    """No answer came in time."""

    retriable = True


class InvalidOption(ClientError, ValueError):
    """A setting of a client that does not exist or cannot have this value."""


class SerializationFailed(ClientError, ValueError):
    """A key or value that its serializer cannot turn into bytes, or bytes that are not what its reader expects.

    A consumer that finds such a record stays before it: `seek(error.partition, error.offset + 1)` goes on behind it.
    """

    def __init__(self, message: str, *, partition: TopicPartition | None = None, offset: Offset | None = None) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset


class BufferFull(ClientError):
    """The producer's buffer has no room for a record, and did not get any in time."""

    retriable = True


class RecordDropped(ClientError):
    """The producer's buffer was full, and its policy let this record go."""


class DeliveryExpired(ClientError):
    """A record was not acknowledged within `delivery_timeout_ms`; whether it was written nobody knows."""


class ClientClosed(ClientError):
    """The producer, consumer or admin client is closed."""


class ProducerFenced(ClientError):
    """Another producer with the same transactional id has begun: this one may not write any more."""


class TransactionFailed(ClientError):
    """The transaction cannot be committed; `abort_transaction` makes room for a new one."""


class IllegalTransactionState(ClientError):
    """A step of a transaction out of turn, such as a commit before a begin."""


class RebalanceInProgress(ClientError):
    """The group is sharing its partitions anew: poll, then commit again."""

    retriable = True


class CommitFailed(ClientError):
    """The group has given the partitions to others: what was read may be read again by them."""


class LogTruncated(ClientError):
    """The partition's new leader lacks records that were read, and `auto_offset_reset` is none: seek to go on.

    `divergent_offset` is where the logs part, None when the leader does not know.
    """

    def __init__(self, partition: TopicPartition, position: Offset, divergent_offset: Offset | None) -> None:
        where = "at an unknown offset" if divergent_offset is None else f"at offset {divergent_offset}"
        super().__init__(f"{partition} was truncated: what was read before offset {position} parts from it {where}.")
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset


class UnsupportedByBroker(ClientError):
    """The broker does not serve this request in any version that we speak."""


class Rejected(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or SENTENCES.get(code) or code.name)
        self.code = code
        self.retriable = code in RETRIABLE


SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is outside of what the partition holds.",
    ErrorCode.MESSAGE_TOO_LARGE: "The record batch is larger than the topic allows (max.message.bytes).",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not valid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "The broker does not hold this partition.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access this topic.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized to change the cluster.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below 1 or above the number of brokers.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for.",
    ErrorCode.CORRUPT_MESSAGE: "The record batch arrived damaged.",
    ErrorCode.REQUEST_TIMED_OUT: "The broker could not finish in time.",
}


def code_of(number: int) -> ErrorCode:
    """The error code of a number in an answer; one that a newer broker knows and we do not is an unknown error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def check(number: int, message: str | None = None) -> None:
    """Raise Rejected unless the number is that of success."""
    if number:
        raise Rejected(code_of(number), message)


def rejection(number: int, message: str | None = None) -> Rejected | None:
    """The rejection that a number in an answer means, if it means one."""
    return Rejected(code_of(number), message) if number else None
