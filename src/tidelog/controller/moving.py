"""The replicas of a partition on the move (KIP-455): where a reassignment goes, when it is complete, how it is undone.

Pure functions over one partition, called by `elections.py` for every change and by `reassignments.py` for commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.metadata.image import PartitionRegistration
from tidelog.model.ids import NodeId

Nodes = tuple[NodeId, ...]


class Move(NamedTuple):
    """The replicas of a partition while they are moved: the new ones in their order, then those that will go."""

    replicas: Nodes
    removing: Nodes
    adding: Nodes


def move_to(partition: PartitionRegistration, target: Sequence[NodeId]) -> Move:
    """Begin to move; replicas that an earlier move has not finished adding are still being added."""
    settled = [node for node in partition.replicas if node not in partition.adding_replicas]
    removing = tuple(node for node in partition.replicas if node not in target)
    adding = tuple(node for node in target if node not in settled)
    return Move((*target, *removing), removing, adding)


def completed(partition: PartitionRegistration, isr: Nodes) -> tuple[Nodes, Nodes] | None:
    """The replicas and the ISR after the move, when all that are added are in sync; None before, or without a move."""
    if not partition.reassigning:
        return None
    remaining = tuple(node for node in isr if node not in partition.removing_replicas)
    if not remaining or not set(partition.adding_replicas) <= set(remaining):
        return None
    return tuple(node for node in partition.replicas if node not in partition.removing_replicas), remaining


def undone(partition: PartitionRegistration) -> tuple[Nodes, Nodes]:
    """The replicas and the ISR as if the move had never begun; an empty ISR means that only new ones are in sync."""
    return (
        tuple(node for node in partition.replicas if node not in partition.adding_replicas),
        tuple(node for node in partition.isr if node not in partition.adding_replicas),
    )
