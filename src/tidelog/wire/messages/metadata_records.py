"""Records of the cluster metadata log (KIP-631). `API_KEY` is the record's type; type and version stand before the
value."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    bool_,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    tag,
    uint16,
    uuid,
)


class BrokerEndpoint(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class BrokerFeature(Message):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterBrokerRecord(Message):
    VERSIONS = "0-3"
    FLEXIBLE = "0+"
    API_KEY = 0

    broker_id: int32 = 0
    is_migrating_zk_broker: Annotated[bool_, since("2+")] = False
    incarnation_id: uuid = ZERO_UUID
    broker_epoch: int64 = 0
    end_points: list[BrokerEndpoint] = []
    features: list[BrokerFeature] = []
    rack: Annotated[string | None, nullable("0+")] = ""
    fenced: bool_ = True
    in_controlled_shutdown: Annotated[bool_, since("1+")] = False
    log_dirs: Annotated[list[uuid], tag(0, "3+")] = []


class UnregisterBrokerRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 1

    broker_id: int32 = 0
    broker_epoch: int64 = 0


class TopicRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 2

    name: string = ""
    topic_id: uuid = ZERO_UUID


class PartitionRecord(Message):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 3

    partition_id: int32 = -1
    topic_id: uuid = ZERO_UUID
    replicas: list[int32] = []
    isr: list[int32] = []
    removing_replicas: list[int32] = []
    adding_replicas: list[int32] = []
    leader: int32 = -1
    leader_recovery_state: Annotated[int8, tag(0, "0+")] = 0
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: Annotated[list[uuid], since("1+")] = []
    eligible_leader_replicas: Annotated[list[int32] | None, tag(1, "2+"), nullable("2+")] = None
    last_known_elr: Annotated[list[int32] | None, tag(2, "2+"), nullable("2+")] = None


class ConfigRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 4

    resource_type: int8 = 0
    resource_name: string = ""
    name: string = ""
    value: Annotated[string | None, nullable("0+")] = ""


class PartitionChangeRecord(Message):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 5

    partition_id: int32 = -1
    topic_id: uuid = ZERO_UUID
    isr: Annotated[list[int32] | None, tag(0, "0+"), nullable("0+")] = None
    leader: Annotated[int32, tag(1, "0+")] = -2
    replicas: Annotated[list[int32] | None, tag(2, "0+"), nullable("0+")] = None
    removing_replicas: Annotated[list[int32] | None, tag(3, "0+"), nullable("0+")] = None
    adding_replicas: Annotated[list[int32] | None, tag(4, "0+"), nullable("0+")] = None
    leader_recovery_state: Annotated[int8, tag(5, "0+")] = -1
    directories: Annotated[list[uuid] | None, tag(8, "1+"), nullable("1+")] = None
    eligible_leader_replicas: Annotated[list[int32] | None, tag(6, "2+"), nullable("2+")] = None
    last_known_elr: Annotated[list[int32] | None, tag(7, "2+"), nullable("2+")] = None


class FenceBrokerRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 7

    id: int32 = 0
    epoch: int64 = 0


class UnfenceBrokerRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 8

    id: int32 = 0
    epoch: int64 = 0


class RemoveTopicRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 9

    topic_id: uuid = ZERO_UUID


class DelegationTokenRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 10

    owner: string = ""
    requester: string = ""
    renewers: list[string] = []
    issue_timestamp: int64 = 0
    max_timestamp: int64 = 0
    expiration_timestamp: int64 = 0
    token_id: string = ""


class UserScramCredentialRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 11

    name: string = ""
    mechanism: int8 = 0
    salt: bytes_ = b""
    stored_key: bytes_ = b""
    server_key: bytes_ = b""
    iterations: int32 = 0


class FeatureLevelRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 12

    name: string = ""
    feature_level: int16 = 0


class EntityData(Message):
    entity_type: string = ""
    entity_name: Annotated[string | None, nullable("0+")] = ""


class ClientQuotaRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 14

    entity: list[EntityData] = []
    key: string = ""
    value: float64 = 0.0
    remove: bool_ = False


class ProducerIdsRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 15

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    next_producer_id: int64 = 0


class BrokerRegistrationChangeRecord(Message):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 17

    broker_id: int32 = 0
    broker_epoch: int64 = 0
    fenced: Annotated[int8, tag(0, "0+")] = 0
    in_controlled_shutdown: Annotated[int8, tag(1, "1+")] = 0
    log_dirs: Annotated[list[uuid], tag(2, "2+")] = []


class AccessControlEntryRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 18

    id: uuid = ZERO_UUID
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class RemoveAccessControlEntryRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 19

    id: uuid = ZERO_UUID


class NoOpRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 20


class ZkMigrationStateRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 21

    zk_migration_state: int8 = 0


class RemoveUserScramCredentialRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 22

    name: string = ""
    mechanism: int8 = 0


class BeginTransactionRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 23

    name: Annotated[string | None, tag(0, "0+"), nullable("0+")] = None


class EndTransactionRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 24


class AbortTransactionRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 25

    reason: Annotated[string | None, tag(0, "0+"), nullable("0+")] = None


class RemoveDelegationTokenRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 26

    token_id: string = ""


class ControllerEndpoint(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class ControllerFeature(Message):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterControllerRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 27

    controller_id: int32 = 0
    incarnation_id: uuid = ZERO_UUID
    zk_migration_ready: bool_ = False
    end_points: list[ControllerEndpoint] = []
    features: list[ControllerFeature] = []


class ClearElrRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 28

    topic_name: string = ""
