"""The file that keeps a member's vote, as Apache Kafka writes and reads it."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.raft.quorum_state import QUORUM_STATE_FILE, read_state, write_state
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.checkpoints import replace_file
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId
from tidelog.raft.effects import PersistState
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Remembered

KEY = ReplicaKey(NodeId(3), UUID("5c0b3b5d-8b1f-4c06-8a0e-0c8d8c6f5a11"))


@pytest.fixture
def files() -> SimulatedFiles:
    made = SimulatedFiles()
    made.make_directory("/log")
    return made


@pytest.mark.parametrize(
    "state",
    [
        PersistState(LeaderEpoch(7), KEY, NO_NODE),
        PersistState(LeaderEpoch(7), None, NodeId(2)),
        PersistState(LeaderEpoch(7), KEY, NodeId(3)),
    ],
)
def test_what_is_remembered_is_known_after_the_power_was_lost(files: SimulatedFiles, state: PersistState) -> None:
    write_state(files, "/log", state)

    files.crash()

    assert read_state(files, "/log") == Remembered(state.epoch, state.voted_for, state.leader)


def test_a_new_member_remembers_nothing(files: SimulatedFiles) -> None:
    assert read_state(files, "/log") == Remembered()


@pytest.mark.parametrize(
    ("text", "remembered"),
    [
        (
            '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
            '"currentVoters":[{"voterId":1}],"data_version":0}',
            Remembered(LeaderEpoch(3), None, NodeId(1)),
        ),
        (
            '{"leaderId":-1,"leaderEpoch":4,"votedId":3,"votedDirectoryId":"XAs7XYsfTAaKDgyNjG9aEQ","data_version":1}',
            Remembered(LeaderEpoch(4), KEY, NO_NODE),
        ),
    ],
)
def test_files_of_apache_kafka_are_understood(files: SimulatedFiles, text: str, remembered: Remembered) -> None:
    replace_file(files, "/log", QUORUM_STATE_FILE, text.encode())

    assert read_state(files, "/log") == remembered


@pytest.mark.parametrize("text", ["", "{", '{"data_version":9}', '{"data_version":1,"leaderId":1}'])
def test_a_vote_is_never_guessed(files: SimulatedFiles, text: str) -> None:
    replace_file(files, "/log", QUORUM_STATE_FILE, text.encode())

    with pytest.raises(CorruptLog):
        read_state(files, "/log")
