"""kafka-features: the features of a cluster and their levels; upgrade, downgrade, disable them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import cluster_of
from tidelog.cli.kafka.feature_levels import level_of, release_of
from tidelog.model.metadata_versions import METADATA_VERSION, METADATA_VERSION_NAMES, levels_of_release, show_level

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster

COMMANDS: Final = {
    "describe": "Describe the features.",
    "upgrade": "Raise the levels of features.",
    "downgrade": "Lower the levels of features.",
    "disable": "Lower the levels of features to 0.",
    "version-mapping": "Show the levels of a release.",
    "feature-dependencies": "Show which features a level needs.",
}
PAST: Final = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}
# The level of metadata.version without which a feature cannot have a level.
DEPENDENCIES: Final = {("eligible.leader.replicas.version", 1): 23}
DEPRECATED_METADATA: Final = " `metadata` flag is deprecated and may be removed in a future release."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"kafka-features: error: {message}", file=sys.stderr)
        sys.exit(1)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    options = _read(arguments)
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller
    if options.command == "version-mapping":
        return _mapping(options.release_version)
    if options.command == "feature-dependencies":
        return _dependencies(options.feature)
    with cluster_of(options) as cluster:
        return _describe(cluster) if options.command == "describe" else _update(cluster, options)


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="kafka-features", description="Describes and changes the features of a cluster.")
    address = parser.add_mutually_exclusive_group(required=True)
    address.add_argument("--bootstrap-server", help="Brokers of the cluster.")
    address.add_argument("--bootstrap-controller", help="Controllers of the cluster.")
    parser.add_argument("--command-config", help="Properties of the client.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_ in COMMANDS.items():
        command = commands.add_parser(name, help=help_)
        if name in PAST:
            command.add_argument("--feature", action="append", default=[], help="A feature, as name=level.")
            command.add_argument("--dry-run", action="store_true", help="Only say whether it could be done.")
        if name in ("upgrade", "downgrade"):
            command.add_argument("--metadata", help="The level of metadata.version, as 4.2-IV1.")
            command.add_argument("--release-version", help="All features as in this release.")
        if name in ("downgrade", "disable"):
            command.add_argument("--unsafe", action="store_true", help="Metadata may be lost.")
        if name == "version-mapping":
            newest = METADATA_VERSION_NAMES[max(METADATA_VERSION_NAMES)]
            command.add_argument("--release-version", default=newest, help="The release.")
        if name == "feature-dependencies":
            command.add_argument("--feature", action="append", required=True, help="A feature, as name=level.")
    return parser.parse_args(arguments)


def _describe(cluster: Cluster) -> int:
    from tidelog.client.features import describe_features

    found = describe_features(cluster)
    for one in found.features:
        lowest, highest, level = (show_level(one.name, number) for number in (one.lowest, one.highest, one.level))
        print(
            f"Feature: {one.name}\tSupportedMinVersion: {lowest}\tSupportedMaxVersion: {highest}\t"
            f"FinalizedVersionLevel: {level}\tEpoch: {found.epoch}"
        )
    return 0


def _update(cluster: Cluster, options: argparse.Namespace) -> int:
    from tidelog.client.features import Direction, describe_features, update_features

    verb = options.command
    if verb != "disable" and options.release_version is not None:
        if options.metadata is not None or options.feature:
            raise BadInput("Can not specify `release-version` with other feature flags.")
        known = {one.name for one in describe_features(cluster).features}
        wanted = levels_of_release(release_of(options.release_version))
        levels = {name: level for name, level in wanted.items() if name in known}
    else:
        levels = _named(options)
    if not levels:
        raise BadInput(f"You must specify at least one feature to {verb}")
    direction = Direction.UPGRADE
    if verb != "upgrade":
        direction = Direction.UNSAFE_DOWNGRADE if options.unsafe else Direction.SAFE_DOWNGRADE
    answers = update_features(cluster, levels, direction, dry_run=options.dry_run)
    failed = 0
    for name, rejected in sorted(answers.items()):
        to = "" if verb == "disable" else f" to {levels[name]}"
        if rejected is None:
            print(f"{name} {'can be' if options.dry_run else 'was'} {PAST[verb]}{to}.")
        else:
            failed += 1
            could = "Can not" if options.dry_run else "Could not"
            print(f"{could} {verb} {name}{to}. {rejected}")
    if failed:
        print(f"{failed} out of {len(answers)} operation(s) failed.", file=sys.stderr)
    return int(bool(failed))


def _named(options: argparse.Namespace) -> dict[str, int]:
    """The levels that --feature and --metadata ask for."""
    if options.command == "disable":
        return dict.fromkeys(options.feature, 0)
    levels: dict[str, int] = {}
    if options.metadata is not None:
        print(DEPRECATED_METADATA)
        levels[METADATA_VERSION] = release_of(options.metadata)
    for text in options.feature:
        name, level = level_of(text)
        if name in levels:
            raise BadInput(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _mapping(release: str) -> int:
    for name, level in levels_of_release(release_of(release)).items():
        print(f"{name}={level} ({release})" if name == METADATA_VERSION else f"{name}={level}")
    return 0


def _dependencies(features: Sequence[str]) -> int:
    for text in features:
        name, level = level_of(text)
        if name not in levels_of_release(max(METADATA_VERSION_NAMES)):
            raise BadInput(f"Unknown feature: {name}")
        needed = DEPENDENCIES.get((name, level))
        if needed is None:
            print(f"{name}={level} has no dependencies.")
        else:
            print(f"{name}={level} requires:\n    {METADATA_VERSION}={needed} ({show_level(METADATA_VERSION, needed)})")
    return 0
