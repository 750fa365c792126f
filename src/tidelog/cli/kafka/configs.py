"""kafka-configs: describe and alter settings of topics, brokers and groups, and quotas of users, clients, addresses."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of, properties_of
from tidelog.cli.kafka.quota_configs import KINDS, alter_quotas, describe_quotas

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import ConfigEntry, Resource

ENTITY_TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
SERVED: Final = ("topics", "brokers", "groups", *KINDS)
SHORT: Final = {
    "topic": "topics",
    "broker": "brokers",
    "client": "clients",
    "user": "users",
    "ip": "ips",
    "group": "groups",
}
SHORT_DEFAULTS: Final = ("broker", "client", "user", "ip")
# A comma that no pair of brackets holds.
_BETWEEN: Final = re.compile(r",(?=[^\]]*(?:\[|$))")
_KEY: Final = re.compile(r"[a-zA-Z0-9._-]*")


class Entity(NamedTuple):
    """Whose settings: a type, and a name, "" for the defaults of all, or None for each."""

    type: str
    name: str | None


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin
    from tidelog.client.errors import ClientError

    parser = _parser()
    options = parser.read(arguments)
    if options.alter == options.describe:
        parser.error("Command must include exactly one action: --describe, --alter")
    entities = _entities(options)
    entity = entities[0]
    with cluster_of(options) as cluster:
        admin = Admin(cluster)
        try:
            if options.alter:
                added, deleted = _changes(options)
                if entity.type in KINDS:
                    alter_quotas(cluster, entities, added, deleted)
                else:
                    _alter(admin, entity, added, deleted)
                _say_updated(next((each for each in entities if each.name), entity))
            elif entity.type in KINDS:
                describe_quotas(cluster, entities)
            else:
                _describe(admin, entity, everything=options.all)
        except ClientError as error:
            print(f"Error while executing config command with args '{' '.join(arguments)}'", file=sys.stderr)
            print(error, file=sys.stderr)
            return 1
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-configs", "Describes and alters settings and quotas.")
    parser.bootstrap()
    parser.flag("--describe", "Show settings.")
    parser.flag("--alter", "Change settings.")
    parser.flag("--all", "Show settings that have their default, too.")
    parser.option("--entity-type", "TYPE", ", ".join(SERVED) + "; users and clients together.", action=InOrder)
    parser.option("--entity-name", "NAME", "The topic, the broker's id, the group, …", action=InOrder)
    parser.add_argument("--entity-default", action=InOrder, nargs=0, help="The defaults of all.")
    for name in SHORT:
        parser.option(f"--{name}", "NAME", f"Short for --entity-type {SHORT[name]} --entity-name NAME.")
    for name in SHORT_DEFAULTS:
        parser.flag(f"--{name}-defaults", f"Short for --entity-type {SHORT[name]} --entity-default.")
    parser.option("--add-config", "K=V,K=[V,V]", "Settings to set; brackets hold values with commas.")
    parser.option("--add-config-file", "FILE", "A properties file with settings to set.")
    parser.option("--delete-config", "K,K", "Settings to remove.")
    parser.flag("--force", argparse.SUPPRESS)
    return parser


class InOrder(argparse.Action):
    """Entity options belong together by the order in which they are given."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        given = getattr(namespace, "entities", ())
        name = "" if self.dest == "entity_default" else values
        if self.dest == "entity_type":
            namespace.entities = [*given, Entity(name, None)]
        elif given and given[-1].name is None:
            namespace.entities = [*given[:-1], given[-1]._replace(name=name)]
        else:
            raise BadInput("--entity-name or --entity-default must be specified with --describe of users, clients")


def _entities(options: argparse.Namespace) -> list[Entity]:
    given = list(getattr(options, "entities", ()))
    given += [Entity(type_, getattr(options, short)) for short, type_ in SHORT.items() if getattr(options, short)]
    given += [Entity(SHORT[short], "") for short in SHORT_DEFAULTS if getattr(options, f"{short}_defaults")]
    if not given:
        raise BadInput("At least one entity type must be specified")
    if options.bootstrap_server is None:
        raise BadInput("One of the required --bootstrap-server or --bootstrap-controller arguments must be specified")
    types = [entity.type for entity in given]
    for type_ in types:
        if type_ not in ENTITY_TYPES:
            raise BadInput(
                f"Invalid entity type {type_}, the entity type must be one of {', '.join(ENTITY_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
        if type_ not in SERVED:
            raise BadInput(f"This command cannot show settings of {type_}; those of {', '.join(SERVED)} it can.")
    if len(types) > 1 and sorted(types) != ["clients", "users"]:
        raise BadInput("Only 'users' and 'clients' entity types may be specified together")
    for entity in given:
        _check_name(entity, "alter" if options.alter else "describe")
    return given


def _check_name(entity: Entity, action: str) -> None:
    if entity.type == "brokers" and entity.name and not entity.name.lstrip("-").isdigit():
        raise BadInput(f"The entity name for brokers must be a valid integer broker id, but it is: {entity.name}")
    if entity.type == "topics" and entity.name == "":
        raise BadInput(f"--entity-default must not be specified with --{action} of topics")
    if action == "alter" and not entity.name and entity.type == "groups":
        raise BadInput("An entity name must be specified with --alter of groups")
    if action == "alter" and entity.name is None:
        if entity.type == "topics":
            raise BadInput("An entity name must be specified with --alter of topics")
        raise BadInput(
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
        )


def _describe(admin: Admin, entity: Entity, *, everything: bool) -> None:
    existing = EXISTING[entity.type](admin)
    kind = entity.type.removesuffix("s")
    if entity.name and entity.name not in existing:
        print(f"The {kind} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        return
    names = [entity.name] if entity.name is not None else existing + ([""] if kind == "broker" else [])
    for name in names:
        if name == "":
            print("Default configs for brokers in the cluster are:")
        else:
            print(f"{'All' if everything else 'Dynamic'} configs for {kind} {name} are:")
        for entry in _entries(admin, entity.type, name, everything):
            synonyms = ", ".join(
                f"{synonym.source.name}:{synonym.name}={_value(synonym.value)}" for synonym in entry.synonyms
            )
            sensitive = str(entry.sensitive).lower()
            print(f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _value(text: str | None) -> str:
    return "null" if text is None else text


def _entries(admin: Admin, type_: str, name: str, everything: bool) -> list[ConfigEntry]:
    """The settings that are set for this very entity, or all it has, by name."""
    from tidelog.client.core.described import ConfigSource

    own = {
        "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
        "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
        "brokers": ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    }[type_]
    entries = admin.describe_configs(_resource(type_, name))
    return sorted((entry for entry in entries if everything or entry.source == own), key=lambda entry: entry.name)


def _changes(options: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """What to set and what to take back."""
    added = properties_of(None, options.add_config_file) | _added(options.add_config)
    deleted = [key.strip() for key in (options.delete_config or "").split(",") if key.strip()]
    if not added and not deleted:
        raise BadInput(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    for key in added:
        if not _KEY.fullmatch(key):
            raise BadInput(f"Invalid character found for config key: {key}")
    return added, deleted


def _alter(admin: Admin, entity: Entity, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from tidelog.client.core.described import ConfigChange

    assert entity.name is not None
    if deleted:
        have = {entry.name for entry in _entries(admin, entity.type, entity.name, everything=False)}
        missing = [key for key in deleted if key not in have]
        if missing:
            raise BadInput(f"Invalid config(s): {','.join(missing)}")
    changes: dict[str, tuple[ConfigChange, str | None]] = dict.fromkeys(deleted, (ConfigChange.DELETE, None))
    changes |= {key: (ConfigChange.SET, value) for key, value in added.items()}
    admin.alter_configs(_resource(entity.type, entity.name), changes)


def _say_updated(entity: Entity) -> None:
    if entity.name:
        print(f"Completed updating config for {entity.type.removesuffix('s')} {entity.name}.")
    else:
        print(f"Completed updating default config for {entity.type} in the cluster.")


def _added(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    pairs = [re.split(r"\s*=\s*", part, maxsplit=1) for part in _BETWEEN.split(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput(
            'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
            '"key=[val1,val2]" to group values which contain commas.'
        )
    return {key.strip(): re.sub(r"[\[\]]", "", value).strip() for key, value in pairs}


def _resource(type_: str, name: str) -> Resource:
    from tidelog.client.core.described import Resource, ResourceType

    types = {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER, "groups": ResourceType.GROUP}
    return Resource(types[type_], name)


def _groups(admin: Admin) -> list[str]:
    """Groups that live, and groups that have settings."""
    from tidelog.client.core.described import ResourceType
    from tidelog.client.groups import Groups

    configured = {resource.name for resource in admin.list_config_resources(ResourceType.GROUP)}
    return sorted(configured | {group.id for group in Groups(admin.cluster).list_groups()})


EXISTING: Final[dict[str, Callable[[Admin], list[str]]]] = {
    "topics": lambda admin: [topic.name for topic in admin.list_topics()],
    "brokers": lambda admin: [str(node.id) for node in admin.describe_cluster().brokers],
    "groups": _groups,
}
