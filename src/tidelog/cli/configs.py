"""`tidelog configs`: describe and alter settings of topics and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidelog.cli.failures import naming_topic
from tidelog.cli.options import KeyValue, bootstrap_option, connect, format_option
from tidelog.cli.output import say, write_json, write_table

if TYPE_CHECKING:
    from tidelog.client.core.described import Resource

topic_option = click.option("-t", "--topic", help="The topic whose settings are meant.")
broker_option = click.option(
    "--broker", help="The id of the broker whose settings are meant; 'all' for every broker's default."
)


@click.group()
def configs() -> None:
    """Describe and alter settings of topics and brokers."""


@configs.command()
@topic_option
@broker_option
@click.option("--all", "everything", is_flag=True, help="Show settings that have their default, too.")
@bootstrap_option
@format_option
def describe(topic: str | None, broker: str | None, everything: bool, bootstrap: str, format_: str) -> None:
    """Show settings, and where each value comes from."""
    from tidelog.client.admin import Admin

    resource = _resource(topic, broker)
    with connect(bootstrap) as cluster, naming_topic(resource.name):
        entries = [entry for entry in Admin(cluster).describe_configs(resource) if everything or not entry.is_default]
    entries.sort(key=lambda entry: entry.name)
    if format_ == "json":
        write_json(
            [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": entry.source.name.lower(),
                    "read_only": entry.read_only,
                    "sensitive": entry.sensitive,
                }
                for entry in entries
            ]
        )
    elif entries:
        rows = [
            (entry.name, "•••" if entry.sensitive else entry.value, _source(entry.source.name)) for entry in entries
        ]
        write_table(["setting", "value", "from"], rows)
    else:
        say("Every setting has its default. --all shows them.")


@configs.command()
@topic_option
@broker_option
@click.option("-s", "--set", "settings", type=KeyValue(), multiple=True, help="A setting to set; may be repeated.")
@click.option("-d", "--delete", "deleted", multiple=True, help="A setting to put back to its default; may be repeated.")
@bootstrap_option
@format_option
def alter(
    topic: str | None,
    broker: str | None,
    settings: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    bootstrap: str,
    format_: str,
) -> None:
    """Change settings; all that are named, or none."""
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import ConfigChange

    if not settings and not deleted:
        raise click.UsageError("Nothing to change: give --set key=value or --delete key.")
    resource = _resource(topic, broker)
    changes: dict[str, tuple[ConfigChange, str | None]] = dict.fromkeys(deleted, (ConfigChange.DELETE, None))
    changes |= {name: (ConfigChange.SET, value) for name, value in settings}
    with connect(bootstrap) as cluster, naming_topic(resource.name):
        Admin(cluster).alter_configs(resource, changes)
    whose = f"{resource.type.name.lower()} '{resource.name}'" if resource.name else "all brokers"
    say(f"Changed {', '.join(changes)} of {whose}.")
    if format_ == "json":
        write_json({"set": dict(settings), "deleted": list(deleted)})


def _resource(topic: str | None, broker: str | None) -> Resource:
    from tidelog.client.core.described import Resource, ResourceType

    if (topic is None) == (broker is None):
        raise click.UsageError("Give one of --topic and --broker.")
    if topic is not None:
        return Resource(ResourceType.TOPIC, topic)
    assert broker is not None
    if broker != "all" and not broker.isdigit():
        raise click.UsageError(f"'{broker}' is no broker id.")
    return Resource(ResourceType.BROKER, "" if broker == "all" else broker)


def _source(name: str) -> str:
    """ "DYNAMIC_TOPIC_CONFIG" is "topic", "STATIC_BROKER_CONFIG" is "static broker"."""
    words = name.removesuffix("_CONFIG").lower().split("_")
    return " ".join(word for word in words if word != "dynamic")
