"""kafka-reassign-partitions: let other brokers hold replicas of partitions; propose, begin, look, list, call off."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of
from tidelog.cli.reassignment_plans import (
    Directories,
    Plan,
    check_brokers,
    clear_throttles,
    current_plan,
    located,
    read_plan,
    read_topics,
    spread_over,
    throttle,
    write_plan,
)
from tidelog.model.ids import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.errors import Rejected

ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
NO_THROTTLE: Final = -1
EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
    "create a new partition assignment in addition to the existing one. The --additional flag can also be used to "
    "change the throttle by resubmitting the current reassignment."
)
VERIFY_LATER: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin
    from tidelog.client.errors import ClientError

    parser = KafkaParser("kafka-reassign-partitions", "Moves replicas of partitions between brokers.")
    parser.bootstrap(old=("--zookeeper",))
    for action, help_ in {
        "generate": "Propose a plan for topics and brokers.",
        "execute": "Begin what a plan says.",
        "verify": "Say how far it is, and take back throttles when it is done.",
        "cancel": "Call a plan off.",
        "list": "List what is under way.",
    }.items():
        parser.flag(f"--{action}", help_)
    parser.option("--reassignment-json-file", "FILE", "The plan.")
    parser.option("--topics-to-move-json-file", "FILE", 'Topics, as {"topics": [{"topic": "t"}], "version": 1}.')
    parser.option("--broker-list", "1,2,3", "The brokers that shall hold the topics.")
    parser.flag("--disable-rack-aware", "Do not look at racks.")
    parser.option("--throttle", "BYTES", "Bytes per second between brokers.", type=int, default=NO_THROTTLE)
    parser.option("--replica-alter-log-dirs-throttle", "BYTES", "No effect.", type=int, default=NO_THROTTLE)
    parser.option("--timeout", "MS", "No effect: nothing is waited for.", type=int, default=10000)
    parser.flag("--preserve-throttles", "Leave throttles as they are.")
    parser.flag("--additional", "Although others are under way.")
    options = parser.read(arguments)
    if sum(getattr(options, action) for action in ACTIONS) != 1:
        parser.error(f"Command must include exactly one action: {', '.join(f'--{action}' for action in ACTIONS)}")
    action = next(action for action in ACTIONS if getattr(options, action))
    parser.require(options, "bootstrap-server", *NEEDS[action])
    try:
        with cluster_of(options) as cluster:
            DO[action](Admin(cluster), options)
    except (BadInput, ClientError) as error:
        # Kafka's own prints its errors here, not on standard error.
        print(error if str(error) == EXISTING else f"Error: {error}")
        return 1
    return 0


def _generate(admin: Admin, options: argparse.Namespace) -> None:
    numbers = [int(number) for number in options.broker_list.split(",")]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise BadInput(f"Broker list contains duplicate entries: {twice}")
    current = current_plan(admin, read_topics(options.topics_to_move_json_file))
    nodes = [node for node in admin.describe_cluster().brokers if node.id in numbers]
    proposed = spread_over(current, nodes, None, racks=not options.disable_rack_aware)
    print(f"Current partition replica assignment\n{write_plan(current, located(admin, current))}\n")
    print(f"Proposed partition reassignment configuration\n{write_plan(proposed)}")


def _execute(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.reassignments import alter_reassignments, list_reassignments

    wanted, directories = read_plan(options.reassignment_json_file)
    moving = list_reassignments(admin.cluster)
    if moving and not options.additional:
        raise BadInput(EXISTING)
    check_brokers(admin, sorted({node for replicas in wanted.values() for node in replicas}))
    current = _current(admin, wanted)
    print(
        f"Current partition replica assignment\n\n{write_plan(current, located(admin, current))}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if options.throttle >= 0:
        print(VERIFY_LATER)
        throttle(admin, current, wanted, moving, options.throttle)
        print(f"The inter-broker throttle limit was set to {options.throttle} B/s")
    _refuse("Error reassigning partition(s):", alter_reassignments(admin.cluster, wanted))
    print(f"Successfully started partition reassignment{_plural(wanted)} for {_joined(sorted(wanted))}")
    _check_directories(admin, directories)


def _check_directories(admin: Admin, directories: Directories) -> None:
    """A replica stays in the directory that it is in, or goes to the only one of its broker; else there is no way."""
    for (place, node), directory in sorted(directories.items()):
        if directory not in [found.path for found in admin.describe_log_dirs(node, {place.topic: [place.partition]})]:
            raise BadInput(f"Failed to alter dir for {place}-{node}")
        print(f"Successfully started moving log directory to {directory} for replica {place} with broker {node} ")


def _verify(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.errors import Rejected
    from tidelog.client.reassignments import list_reassignments

    wanted, directories = read_plan(options.reassignment_json_file)
    moving = list_reassignments(admin.cluster)
    described = admin.describe_topics({place.topic for place in wanted})
    print("Status of partition reassignment:")
    for place in sorted(wanted):
        topic = described[place.topic]
        exists = not isinstance(topic, Rejected) and place.partition < len(topic.partitions)
        now: tuple[NodeId, ...] = ()
        if exists and not isinstance(topic, Rejected):
            now = topic.partitions[place.partition].replicas
        if place in moving:
            print(f"Reassignment of partition {place} is still in progress.")
        elif now == wanted[place]:
            print(f"Reassignment of partition {place} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {place}, "
                f"but replica set is {_joined(now)} rather than {_joined(wanted[place])}."
            )
    now_in = located(admin, wanted) if directories else {}
    print("\n".join(_directory_line(*replica, named, now_in) for replica, named in sorted(directories.items())))
    if not moving and not options.preserve_throttles:
        _clear(admin, wanted)


def _directory_line(place: TopicPartition, node: NodeId, wanted: str, now_in: Directories) -> str:
    there = now_in.get((place, node))
    if there is None:
        return f"Partition {place} cannot be found in any live log directory on broker {node}."
    if there == wanted:
        return f"Reassignment of replica {place}-{node} completed successfully."
    return f"Partition {place} on broker {node} is not being moved from log dir {there} to {wanted}."


def _cancel(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.reassignments import alter_reassignments, list_reassignments

    wanted, _ = read_plan(options.reassignment_json_file)
    moving = sorted(list_reassignments(admin.cluster, wanted))
    if moving:
        answers = alter_reassignments(admin.cluster, dict.fromkeys(moving))
        failed = [place for place, rejected in answers.items() if rejected is not None]
        _refuse(f"Error cancelling partition reassignment{_plural(failed)} for:", answers)
        print(f"Successfully cancelled partition reassignment{_plural(moving)} for: {_joined(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    # Kafka's own does not end this line, either.
    print("None of the specified partition moves are active.", end="")
    if not options.preserve_throttles:
        _clear(admin, wanted)


def _list(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.reassignments import list_reassignments

    moving = list_reassignments(admin.cluster)
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place in sorted(moving):
        one = moving[place]
        adding = f" adding: {_joined(one.adding)}." if one.adding else ""
        removing = f" removing: {_joined(one.removing)}." if one.removing else ""
        print(f"{place}: replicas: {_joined(one.replicas)}.{adding}{removing}")


def _current(admin: Admin, wanted: Plan) -> Plan:
    everything = current_plan(admin, {place.topic for place in wanted})
    missing = sorted(wanted.keys() - everything.keys())
    if missing:
        raise BadInput(f"Unable to find partition: {', '.join(map(str, missing))}")
    return {place: everything[place] for place in wanted}


def _clear(admin: Admin, wanted: Plan) -> None:
    nodes = {node.id for node in admin.describe_cluster().brokers} | {
        node for replicas in wanted.values() for node in replicas
    }
    topics = sorted({place.topic for place in wanted})
    print(f"Clearing broker-level throttles on broker{_plural(nodes)} {_joined(sorted(nodes))}")
    print(f"Clearing topic-level throttles on topic{_plural(topics)} {_joined(topics)}")
    clear_throttles(admin, topics, sorted(nodes))


def _refuse(title: str, answers: Mapping[TopicPartition, Rejected | None]) -> None:
    failed = {place: rejected for place, rejected in answers.items() if rejected is not None}
    if failed:
        raise BadInput("\n".join([title, *(f"{place}: {failed[place]}" for place in sorted(failed))]))


def _plural(values: Sequence[object] | set[NodeId] | Plan) -> str:
    return "" if len(values) == 1 else "s"


def _joined(values: Sequence[object]) -> str:
    return ",".join(map(str, values))


NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
DO: Final[Mapping[str, Callable[[Admin, argparse.Namespace], None]]] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
}
