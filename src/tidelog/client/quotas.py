"""The blocking client for client quotas: describe and alter what users, clients and addresses may do.

An entity is a mapping of kinds ("user", "client-id", "ip") to names, None for the default of a kind. Used by
`kafka-configs` and by programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.cluster import Cluster
from tidelog.client.deadline import Deadline
from tidelog.client.errors import check
from tidelog.wire.messages import alter_client_quotas as alter
from tidelog.wire.messages import describe_client_quotas as describe

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2


class AnyName:
    """In a filter: whatever the name, the default included."""


ANY_NAME: Final = AnyName()

Entity = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """The quotas of one entity by key, such as producer_byte_rate."""

    entity: Entity
    limits: Mapping[str, float]


def describe_quotas(
    cluster: Cluster, wanted: Mapping[str, str | AnyName | None], *, strict: bool
) -> list[EntityQuotas]:
    """The entities that a filter matches; a strict one names every kind that they have."""
    request = describe.DescribeClientQuotasRequest([_component(kind, name) for kind, name in wanted.items()], strict)

    def ask(deadline: Deadline) -> list[EntityQuotas]:
        answer = cluster.call_any(request, describe.DescribeClientQuotasResponse, deadline)
        check(answer.error_code, answer.error_message)
        return [
            EntityQuotas(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    return cluster.retry(ask)


def alter_quotas(
    cluster: Cluster, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Set quotas of one entity, or (None) remove them; all of them or none."""
    request = alter.AlterClientQuotasRequest(
        [
            alter.AlterClientQuotasRequestEntryData(
                [alter.EntityData(kind, name) for kind, name in entity.items()],
                [alter.OpData(key, value or 0.0, value is None) for key, value in changes.items()],
            )
        ],
        validate_only,
    )

    def ask(deadline: Deadline) -> None:
        for entry in cluster.call_any(request, alter.AlterClientQuotasResponse, deadline).entries:
            check(entry.error_code, entry.error_message)

    cluster.retry(ask)


def _component(kind: str, name: str | AnyName | None) -> describe.ComponentData:
    if isinstance(name, AnyName):
        return describe.ComponentData(kind, ANY, None)
    return describe.ComponentData(kind, DEFAULT if name is None else EXACT, name)
