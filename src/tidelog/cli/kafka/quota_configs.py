"""What `kafka-configs` does for users, clients and addresses: their settings are quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput

if TYPE_CHECKING:
    from tidelog.cli.kafka.configs import Entity
    from tidelog.client.cluster import Cluster

KINDS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
QUOTAS: Final = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
KEYS: Final = {"users": QUOTAS, "clients": QUOTAS, "ips": ("connection_creation_rate",)}
# Kind -> how it is called in the output.
CALLED: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


def describe_quotas(cluster: Cluster, entities: Sequence[Entity]) -> None:
    """One line for each entity that has quotas."""
    from tidelog.client import quotas

    wanted = {
        KINDS[entity.type]: quotas.ANY_NAME if entity.name is None else entity.name or None for entity in entities
    }
    found = quotas.describe_quotas(cluster, wanted, strict=True)
    for entry in sorted(found, key=lambda entry: sorted((kind, name or "") for kind, name in entry.entity.items())):
        named = ", ".join(
            f"the default {called}" if entry.entity[kind] is None else f"{called} '{entry.entity[kind]}'"
            for kind, called in CALLED.items()
            if kind in entry.entity
        )
        limits = ", ".join(f"{key}={entry.limits[key]}" for key in sorted(entry.limits))
        print(f"Quota configs for {named} are {limits}")


def alter_quotas(
    cluster: Cluster, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    from tidelog.client import quotas

    type_ = entities[0].type
    for names, action in ((added, "added"), (deleted, "deleted")):
        unknown = [name for name in names if name not in KEYS[type_]]
        if unknown:
            raise BadInput(
                f"Only quota and SCRAM credential configs can be {action} for '{type_}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}"
            )
    entity = {KINDS[entity.type]: entity.name or None for entity in entities}
    changes: dict[str, float | None] = dict.fromkeys(deleted)
    for name, text in added.items():
        try:
            changes[name] = float(text)
        except ValueError:
            raise BadInput(f"Cannot parse quota configuration value for {name}: {text}") from None
    quotas.alter_quotas(cluster, entity, changes)
