"""Commands on settings: change some (IncrementalAlterConfigs), replace all (AlterConfigs), of topics, brokers, groups.

Each resource of a request succeeds or fails whole and alone. Which value then counts is said by `metadata/settings.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from tidelog.controller.rules import MIN_INSYNC_REPLICAS
from tidelog.controller.state import Controller
from tidelog.machine.runtime import RECORDS_PER_BATCH_MAX, Result
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.metadata.settings import ALL_BROKERS
from tidelog.model.broker_settings import BROKER_SETTINGS, broker_values, check_dynamic_overrides
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.group_settings import GROUP_SETTINGS, check_group_overrides
from tidelog.model.ids import NodeId
from tidelog.model.settings import Setting, SettingType, SettingValue
from tidelog.model.topic_settings import (
    TOPIC_SETTINGS,
    check_topic_config,
    parse_topic_overrides,
    topic_config,
    topic_defaults,
)
from tidelog.wire.messages.metadata_records import ConfigRecord, PartitionChangeRecord
from tidelog.wire.schema import Message

ChangeT = TypeVar("ChangeT")

TABLES: Final[Mapping[ResourceType, Mapping[str, Setting]]] = {
    ResourceType.TOPIC: TOPIC_SETTINGS,
    ResourceType.BROKER: BROKER_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
}


class Operation(IntEnum):
    """What to do with a setting; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change of one setting. APPEND and SUBTRACT take words of a list."""

    name: str
    operation: int
    value: str | None


class SettingsAltered(NamedTuple):
    """What became of the changes of one resource."""

    resource: ConfigResource
    error: ProtocolError | None = None


def alter(
    controller: Controller,
    changes: Sequence[tuple[ConfigResource, Sequence[Alteration]]],
    *,
    validate_only: bool = False,
) -> Result[Message, list[SettingsAltered]]:
    """Change single settings, or only say whether that would work."""
    return _each_resource(controller, changes, _altered, validate_only)


def replace(
    controller: Controller,
    wanted: Sequence[tuple[ConfigResource, Sequence[tuple[str, str | None]]]],
    *,
    validate_only: bool = False,
) -> Result[Message, list[SettingsAltered]]:
    """Give resources exactly these settings: what is not named is deleted."""
    return _each_resource(controller, wanted, _replaced, validate_only)


def check_new_topic_settings(
    controller: Controller, settings: Sequence[tuple[str, str | None]]
) -> list[tuple[str, str]]:
    """The settings of a topic to create, if they are all allowed."""
    missing = [name for name, value in settings if value is None]
    if missing:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}"
        )
    given = {name: value for name, value in settings if value is not None}
    if given:
        _check_topic(controller, given)
    return list(given.items())


def _each_resource(
    controller: Controller,
    changes: Sequence[tuple[ConfigResource, ChangeT]],
    apply: Callable[[Controller, ConfigResource, ChangeT], dict[str, str | None]],
    validate_only: bool,
) -> Result[Message, list[SettingsAltered]]:
    named = Counter(resource for resource, _ in changes)
    records: list[Message] = []
    outcomes = []
    for resource, change in changes:
        try:
            if named[resource] > 1:
                raise _bad_request("Each resource must appear at most once.")
            _check_resource(controller, resource)
            records += _records(controller, resource, apply(controller, resource, change))
            outcomes.append(SettingsAltered(resource))
        except ProtocolError as error:
            outcomes.append(SettingsAltered(resource, error))
    if len(records) > RECORDS_PER_BATCH_MAX:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, "This request is too large to be done at once.")
    return Result(() if validate_only else records, outcomes)


def _altered(
    controller: Controller, resource: ConfigResource, alterations: Sequence[Alteration]
) -> dict[str, str | None]:
    """The new value of each setting that changes; None deletes it."""
    _check_names(alteration.name for alteration in alterations)
    missing = [
        alteration.name
        for alteration in alterations
        if alteration.value is None and alteration.operation != Operation.DELETE
    ]
    if missing:
        raise _bad_request(f"Null value not supported for: {','.join(missing)}.")
    before = controller.image.config(resource)
    table = TABLES[resource.type]
    values: dict[str, str | None] = {}
    for name, operation, value in alterations:
        match operation:
            case Operation.SET:
                values[name] = value
            case Operation.DELETE:
                values[name] = None
            case Operation.APPEND | Operation.SUBTRACT:
                assert value is not None
                values[name] = _edited(table.get(name), name, Operation(operation), before.get(name), value)
            case _:
                raise _bad_request(f"Operation {operation} on {name} is unknown.")
    _check_values(controller, resource, before, values)
    return values


def _replaced(
    controller: Controller, resource: ConfigResource, wanted: Sequence[tuple[str, str | None]]
) -> dict[str, str | None]:
    _check_names(name for name, _ in wanted)
    missing = [name for name, value in wanted if value is None]
    if missing:
        raise _bad_request(f"Null value not supported for: {','.join(missing)}.")
    before = controller.image.config(resource)
    values: dict[str, str | None] = dict.fromkeys(before)
    values.update(wanted)
    _check_values(controller, resource, before, values)
    return values


def _edited(setting: Setting | None, name: str, operation: Operation, before: str | None, value: str) -> str:
    """A list with words added at its end, or taken out."""
    if setting is None or setting.type is not SettingType.LIST:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST."
        )
    text = setting.default if before is None else before
    words = [word for word in (text or "").split(",") if word]
    for word in value.split(","):
        if operation is Operation.SUBTRACT:
            words = [kept for kept in words if kept != word]
        elif word not in words:
            words.append(word)
    return ",".join(words)


def _records(controller: Controller, resource: ConfigResource, values: Mapping[str, str | None]) -> list[Message]:
    before = controller.image.config(resource)
    records: list[Message] = [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in values.items()
        # A broker reloads what a setting points to, such as a key store, even when the setting is the same as before.
        if before.get(name) != value or resource.type is ResourceType.BROKER
    ]
    if MIN_INSYNC_REPLICAS in values and values[MIN_INSYNC_REPLICAS] != before.get(MIN_INSYNC_REPLICAS):
        # With another floor, more may become committed than those know who were eligible under the old one (KIP-966).
        records += _forget_eligible_leaders(controller, resource)
    return records


def _forget_eligible_leaders(controller: Controller, resource: ConfigResource) -> list[Message]:
    """Of partitions that have an ISR: where nobody is left in it nothing becomes committed, and those who are eligible
    are all that is known."""
    image = controller.image
    if resource.type is ResourceType.TOPIC:
        named = image.topic(resource.name)
        topics = [] if named is None else [named]
    else:
        topics = list(image.topics_by_name.values()) if resource == ALL_BROKERS else []
    return [
        PartitionChangeRecord(
            partition_id=index, topic_id=topic.topic_id, eligible_leader_replicas=[], last_known_elr=[]
        )
        for topic in topics
        for index, partition in topic.partitions.items()
        if partition.isr and (partition.eligible_leader_replicas or partition.last_known_elr)
    ]


def _check_resource(controller: Controller, resource: ConfigResource) -> None:
    image = controller.image
    match resource.type:
        case ResourceType.TOPIC:
            if not resource.name:
                raise _bad_request("Default topic resources are not allowed.")
            if image.topic(resource.name) is None:
                raise ProtocolError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
                )
        case ResourceType.BROKER:
            if resource == ALL_BROKERS:
                return
            if not resource.name.isdecimal():
                raise _bad_request(f"A broker is named by its id, a number, not by '{resource.name}'.")
            node = NodeId(int(resource.name))
            if node not in image.brokers and node not in image.controllers:
                raise ProtocolError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node} is registered.")
        case ResourceType.GROUP:
            if not resource.name:
                raise _bad_request("Default group resources are not allowed.")
        case _:
            raise _bad_request(f"Settings of a resource of type {resource.type.name} cannot be changed here.")


def _check_names(names: Iterable[str]) -> None:
    counted = Counter(names)
    twice = [name for name, count in counted.items() if count > 1]
    if twice:
        raise _bad_request(f"A setting may be named once in a request; named twice: {','.join(twice)}.")
    if "" in counted:
        raise _bad_request("A setting has no name.")


def _check_values(
    controller: Controller, resource: ConfigResource, before: Mapping[str, str], values: Mapping[str, str | None]
) -> None:
    if resource.type is ResourceType.BROKER:
        check_dynamic_overrides(values, for_all_brokers=resource == ALL_BROKERS)
        return
    after = {name: value for name, value in {**before, **values}.items() if value is not None}
    if resource.type is ResourceType.GROUP:
        check_group_overrides(after, _broker_values(controller))
    else:
        _check_topic(controller, after)


def _check_topic(controller: Controller, settings: Mapping[str, str]) -> None:
    parse_topic_overrides(settings)
    check_topic_config(topic_config(topic_defaults(_broker_values(controller)), settings))


def _broker_values(controller: Controller) -> dict[str, SettingValue]:
    return broker_values({**controller.policy.static_settings, **controller.image.config(ALL_BROKERS)})


def _bad_request(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
