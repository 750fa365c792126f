"""The file `quorum-state`: epoch, vote and leader that a member must remember, in Apache Kafka's format."""

from __future__ import annotations

import json
from typing import Final

from tidelog.env.files import Files, read_all
from tidelog.log.checkpoints import decode_uuid, encode_uuid, replace_file
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import ZERO_UUID, LeaderEpoch, NodeId
from tidelog.raft.effects import PersistState
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Remembered

QUORUM_STATE_FILE: Final = "quorum-state"
# Version 1 knows the directory of whom the vote went to (KIP-853).
DATA_VERSION: Final = 1
NOBODY: Final = -1


def write_state(files: Files, directory: str, state: PersistState) -> None:
    """Replace the file, durably. Raises OSError."""
    voted = state.voted_for
    content = {
        "leaderId": state.leader,
        "leaderEpoch": state.epoch,
        "votedId": NOBODY if voted is None else voted.node_id,
        "votedDirectoryId": encode_uuid(ZERO_UUID if voted is None else voted.directory_id),
        "data_version": DATA_VERSION,
    }
    replace_file(files, directory, QUORUM_STATE_FILE, json.dumps(content, separators=(",", ":")).encode())


def read_state(files: Files, directory: str) -> Remembered:
    """What was remembered; nothing when there is no such file yet. Raises CorruptLog: a vote must not be guessed."""
    path = f"{directory}/{QUORUM_STATE_FILE}"
    try:
        content = json.loads(read_all(files, path))
    except FileNotFoundError:
        return Remembered()
    except ValueError as error:
        raise CorruptLog(f"{path} is not understood: {error}") from None
    try:
        if content["data_version"] not in (0, DATA_VERSION):
            raise CorruptLog(f"{path} has the unknown version {content['data_version']}")
        voted_id = NodeId(int(content["votedId"]))
        directory_id = decode_uuid(content["votedDirectoryId"]) if "votedDirectoryId" in content else ZERO_UUID
        return Remembered(
            LeaderEpoch(max(int(content["leaderEpoch"]), 0)),
            None if voted_id < 0 else ReplicaKey(voted_id, directory_id),
            NodeId(int(content["leaderId"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"{path} is incomplete: {error}") from None
