"""kafka-consumer-groups: list, describe and delete consumer groups, reset and delete their offsets.

Like Kafka's tool it prints what went wrong with groups on standard output and still ends with 0; only a wrong call ends
with 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput, explain
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of, properties_of
from tidelog.cli.kafka.group_tables import WIDTH_MIN, print_error, print_members, print_offsets, print_state

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.core.groups import GroupListing
    from tidelog.client.errors import Rejected
    from tidelog.model.ids import TopicPartition

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS: Final = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
# Which option goes with which actions alone.
ONLY_WITH: Final = {
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all-groups": ("describe", "delete", "reset-offsets"),
    "topic": ("reset-offsets", "delete-offsets"),
    "all-topics": ("reset-offsets",),
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "execute": ("reset-offsets",),
    "dry-run": ("reset-offsets",),
    "export": ("reset-offsets",),
    **dict.fromkeys(SCENARIOS, ("reset-offsets",)),
}
STATES: Final = ("Empty", "Stable", "Assigning", "Dead", "PreparingRebalance", "CompletingRebalance", "Reconciling")
TYPES: Final = ("Classic", "Consumer")
TIMEOUT_MS: Final = 5000


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    options = parser.read(arguments)
    action = _checked_action(parser, options)
    if action == "validate-regex":
        _validate_regex(options.validate_regex)
        return 0
    properties = properties_of(None, options.command_config)
    properties.setdefault("default.api.timeout.ms", str(options.timeout))
    try:
        with cluster_of(options, properties) as cluster:
            ACTS[action](cluster, options)
    except BadInput as error:
        parser.error(str(error))
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print_error(f"Executing consumer group command failed due to {_failure(error, sentence)}")
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-consumer-groups", "Lists, describes and deletes consumer groups, and resets offsets.")
    parser.bootstrap(old=("--zookeeper",))
    parser.flag("--list", "List all consumer groups.")
    parser.flag("--describe", "Show offsets and lag, or members, or the state of groups.")
    parser.flag("--delete", "Delete groups that have no members.")
    parser.flag("--reset-offsets", "Set the offsets of a group without members; only shown unless --execute is given.")
    parser.flag("--delete-offsets", "Delete offsets of a group in topics.")
    parser.option("--validate-regex", "REGEX", "Say whether a regular expression can be subscribed to.")
    parser.option("--group", "ID", "A group; may be repeated.", action="append")
    parser.flag("--all-groups", "All consumer groups.")
    parser.option("--topic", "TOPIC[:0,1]", "A topic, or some of its partitions; may be repeated.", action="append")
    parser.flag("--all-topics", "All topics in which the group has offsets.")
    parser.flag("--members", "Describe the members.")
    parser.flag("--offsets", "Describe the offsets; so it is without anything else.")
    parser.flag("--verbose", "Describe more.")
    parser.option("--state", "STATE,…", "Show states; with --list only groups in these.", nargs="?", const="")
    parser.option("--type", "TYPE,…", "Show types; only groups of these.", nargs="?", const="")
    parser.flag("--execute", "Really reset the offsets.")
    parser.flag("--dry-run", "Only show what would be reset.")
    parser.flag("--export", "Print the new offsets as comma-separated values.")
    parser.option("--to-offset", "OFFSET", "Reset to an offset.", type=int)
    parser.option("--shift-by", "N", "Reset by so many records on, or back.", type=int)
    parser.option("--to-datetime", "TIME", "Reset to a time: 2026-01-31T12:00:00.000.")
    parser.option("--by-duration", "DURATION", "Reset to that long ago: PT1H30M.")
    parser.flag("--to-earliest", "Reset to the oldest record.")
    parser.flag("--to-latest", "Reset to the end.")
    parser.flag("--to-current", "Reset to where the group is.")
    parser.option("--from-file", "FILE", "Reset to offsets in a file of comma-separated values.")
    parser.option("--timeout", "MS", "How long to wait for answers.", type=int, default=TIMEOUT_MS)
    return parser


def _checked_action(parser: KafkaParser, options: argparse.Namespace) -> str:
    given = [action for action in ACTIONS if _has(options, action)]
    if options.bootstrap_server is None and given != ["validate-regex"]:
        parser.error('Missing required argument "[bootstrap-server]"')
    if len(given) != 1:
        parser.error("Command must include exactly one action: " + ", ".join(f"--{action}" for action in ACTIONS))
    (action,) = given
    for name, actions in ONLY_WITH.items():
        if _has(options, name) and action not in actions:
            parser.error(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    if options.group and options.all_groups:
        parser.error('Option "[group]" can\'t be used with option "[all-groups]"')
    if action in ("describe", "delete", "reset-offsets") and not (options.group or options.all_groups):
        parser.error(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if action in CHECKS:
        CHECKS[action](parser, options)
    return action


def _check_describe(parser: KafkaParser, options: argparse.Namespace) -> None:
    if sum(_has(options, name) for name in ("members", "offsets", "state")) > 1:
        parser.error("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if options.state:
        parser.error("Option [describe] does not take a value for [state]")


def _check_delete_offsets(parser: KafkaParser, options: argparse.Namespace) -> None:
    if not options.group or not options.topic:
        parser.error("Option [delete-offsets] takes the following options: [group], [topic]")


def _check_reset(parser: KafkaParser, options: argparse.Namespace) -> None:
    if options.dry_run and options.execute:
        parser.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    chosen = [name for name in SCENARIOS if _has(options, name)]
    if len(chosen) > 1:
        parser.error(f'Option "[{chosen[0]}]" can\'t be used with option "[{chosen[1]}]"')
    if not chosen:
        parser.error(
            "Option [reset-offsets] takes one of these options: " + ", ".join(f"[{name}]" for name in SCENARIOS)
        )
    if options.topic and options.all_topics:
        parser.error('Option "[topic]" can\'t be used with option "[all-topics]"')
    if not (options.topic or options.all_topics or options.from_file):
        parser.error("One of the reset scopes should be defined: --all-topics, --topic.")


def _has(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name.replace("-", "_")) not in (None, False)


CHECKS: Final = {"describe": _check_describe, "delete-offsets": _check_delete_offsets, "reset-offsets": _check_reset}


def _validate_regex(text: str) -> None:
    from tidelog.groups.consumer.patterns import compile_pattern
    from tidelog.model.errors import ProtocolError

    try:
        compile_pattern(text)
        print(f"The regular expression `{text}` is valid.")
    except ProtocolError as error:
        print(f"The regular expression `{text}` is invalid: {error}")


def _list(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.groups import Groups

    states = _words(options.state, STATES, "state")
    types = _words(options.type, TYPES, "types")
    found = [group for group in Groups(cluster).list_groups(states=states, types=types) if group.is_consumers]
    if options.state is None and options.type is None:
        for group in found:
            print(group.id)
        return
    _print_listing(found, with_type=options.type is not None, with_state=options.state is not None)


def _print_listing(found: Sequence[GroupListing], *, with_type: bool, with_state: bool) -> None:
    width = max([WIDTH_MIN, *(len(group.id) for group in found)]) + 10
    for group_id, type_, state in [
        ("GROUP", "TYPE", "STATE"),
        *((group.id, group.type, group.state) for group in found),
    ]:
        line = f"{group_id:<{width}}"
        line += f" {type_:<20}" if with_type else ""
        line += f" {state:<20}" if with_state else ""
        print(line)


def _words(text: str | None, known: Iterable[str], kind: str) -> list[str]:
    wanted = [word.strip() for word in (text or "").split(",") if word.strip()]
    if {word.lower() for word in wanted} - {word.lower() for word in known}:
        raise BadInput(f"Invalid {kind} list '{text}'. Valid {kind.rstrip('s')}s are: {', '.join(known)}")
    return wanted


def _describe(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.admin import accepted
    from tidelog.client.groups import Groups

    client = Groups(cluster)
    described = {name: accepted(group) for name, group in client.describe_groups(_groups(cluster, options)).items()}
    for name in sorted(described):
        group = described[name]
        if options.members:
            print_members(group, verbose=options.verbose)
        elif options.state is not None:
            print_state(group, verbose=options.verbose)
        else:
            assigned = [place for member in group.members for place in member.assignment]
            print_offsets(group, client.lags(client.offsets_of(name), assigned), verbose=options.verbose)


def _delete(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.cli.kafka.java_errors import java_error
    from tidelog.client.groups import Groups

    answers = Groups(cluster).delete_groups(_groups(cluster, options))
    failed = {name: rejected for name, rejected in answers.items() if rejected is not None}
    deleted = ", ".join(f"'{name}'" for name in answers if name not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for name, rejected in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {java_error(rejected)}")
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {deleted}")


def _reset_offsets(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.cli.kafka.group_resets import reset_offsets

    reset_offsets(cluster, _groups(cluster, options), options)


def _delete_offsets(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.cli.kafka.java_errors import java_error, java_message
    from tidelog.cli.partition_lists import named_partitions
    from tidelog.client.errors import Rejected
    from tidelog.client.groups import Groups

    group = options.group[-1]
    status: dict[tuple[str, str], Rejected | None] = {}
    partitions: list[TopicPartition] = []
    for given in options.topic:
        try:
            partitions += named_partitions(cluster, [given])
        except Rejected as error:
            status[given, "-"] = error
    whole: Rejected | None = None
    try:
        answers = Groups(cluster).delete_offsets(group, partitions) if partitions else {}
    except Rejected as error:
        whole = error
        answers = dict.fromkeys(partitions, error)
    status |= {(place.topic, str(place.partition)): rejected for place, rejected in answers.items()}
    if whole is not None:
        print_error(java_message(whole))
    elif any(answers.values()):
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    width = max([WIDTH_MIN, *(len(topic) for topic, _ in status)])
    rows = [
        (topic, partition, "Successful" if rejected is None else f"Error: {java_error(rejected)}")
        for (topic, partition), rejected in sorted(status.items(), key=lambda item: "".join(item[0]))
    ]
    for topic, partition, text in [("TOPIC", "PARTITION", "STATUS"), *rows]:
        print(f"\n{topic:<{width}} {partition:<10} {text:<15}", end="")
    print()


def _groups(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    from tidelog.client.groups import Groups

    if options.all_groups:
        return [group.id for group in Groups(cluster).list_groups() if group.is_consumers]
    return list(dict.fromkeys(options.group))


def _failure(error: Exception, sentence: str) -> str:
    from tidelog.cli.kafka.java_errors import java_error, java_message
    from tidelog.client.errors import Rejected
    from tidelog.model.errors import ErrorCode

    if not isinstance(error, Rejected):
        return sentence
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return java_error(error, sentence)
    return java_message(error)


ACTS: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset_offsets,
    "delete-offsets": _delete_offsets,
}
