"""kafka-broker-api-versions: which requests each broker serves, in which versions, and the newest that we could use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.kafka.arguments import KafkaParser, cluster_of

if TYPE_CHECKING:
    from tidelog.wire.schema import VersionRange

# Requests between brokers and controllers, which clients have no use for and brokers need not serve to them.
NOT_FOR_CLIENTS: Final = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin

    parser = KafkaParser("kafka-broker-api-versions", "Shows what brokers serve.")
    parser.bootstrap()
    options = parser.read(arguments)
    parser.require(options, "bootstrap-server")
    with cluster_of(options) as cluster:
        admin = Admin(cluster)
        description = admin.describe_cluster()
        for node in description.brokers:
            fenced = str(node.id in description.fenced).lower()
            rack = "null" if node.rack is None else node.rack
            lines = ",\n\t".join(_lines(admin.api_versions(node)))
            print(f"{node} (id: {node.id} rack: {rack} isFenced: {fenced}) -> (\n\t{lines}\n)")
    return 0


def _lines(served: Mapping[int, VersionRange]) -> list[str]:
    from tidelog.wire.apis import APIS

    lines = []
    for key in sorted(served.keys() | (APIS.keys() - NOT_FOR_CLIENTS)):
        theirs, api = served.get(key), APIS.get(key)
        name = "UNKNOWN" if api is None else api.name
        if theirs is None:
            lines.append(f"{name}({key}): UNSUPPORTED")
            continue
        versions = str(theirs.first) if theirs.first == theirs.last else f"{theirs.first} to {theirs.last}"
        lines.append(f"{name}({key}): {versions}{'' if api is None else _usable(api.versions, theirs)}")
    return lines


def _usable(ours: VersionRange, theirs: VersionRange) -> str:
    if ours.last < theirs.first:
        return " [unusable: node too new]"
    if theirs.last < ours.first:
        return " [unusable: node too old]"
    return f" [usable: {min(ours.last, theirs.last)}]"
