from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.env.files import RealFiles
from tidelog.log.epochs import LeaderEpochs
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import LeaderEpoch, Offset


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # A follower that knows no epoch yet.
        (0, (0, 100)),  # Older than everything kept: all it wrote is gone.
        (2, (2, 150)),
        (3, (2, 150)),  # Never seen here: the last one before it.
        (4, (4, 300)),
        (7, (7, 1000)),  # The newest is still being written.
        (8, (-1, -1)),  # Newer than anything known.
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next_one(asked: int, answer: tuple[int, int]) -> None:
    known = epochs((2, 100), (4, 150), (7, 300))

    assert known.end_offset_for(LeaderEpoch(asked), Offset(1000)) == answer


def test_an_epoch_is_noted_once_and_pushes_out_what_contradicts_it() -> None:
    known = epochs()
    known.assign(LeaderEpoch(1), Offset(0))
    known.assign(LeaderEpoch(1), Offset(5))
    known.assign(LeaderEpoch(3), Offset(9))
    assert known.entries == ((1, 0), (3, 9))

    known.assign(LeaderEpoch(5), Offset(9))  # Epoch 3 wrote nothing.
    assert known.entries == ((1, 0), (5, 9))
    assert known.latest == 5
    assert [known.epoch_at(Offset(offset)) for offset in (0, 8, 9)] == [1, 1, 5]


def test_epochs_are_cut_at_both_ends_of_the_log() -> None:
    known = epochs((1, 0), (3, 10), (5, 20))
    known.truncate_from_start(Offset(12))
    assert known.entries == ((3, 12), (5, 20))
    known.truncate_from_start(Offset(12))
    assert known.entries == ((3, 12), (5, 20))

    known.truncate_from_end(Offset(20))
    assert known.entries == ((3, 12),)
    assert known.latest == 3
    known.truncate_from_end(Offset(12))
    assert known.entries == ()
    assert known.latest == -1


@pytest.mark.req("B8")
def test_epochs_are_written_as_lines_of_epoch_and_start_offset(tmp_path: Path) -> None:
    known = epochs((1, 0), (3, 10))
    known.write(RealFiles(), str(tmp_path))

    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n3 10\n"
    assert LeaderEpochs.read(RealFiles(), str(tmp_path)).entries == known.entries
    assert not known.dirty


@pytest.mark.parametrize("content", ["0\n", "1\n0\n", "0\n2\n1 0\n", "0\n1\nx y\n", "\0\0\0\0"])
def test_a_torn_file_of_epochs_is_noticed(tmp_path: Path, content: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(content)

    with pytest.raises(CorruptLog):
        LeaderEpochs.read(RealFiles(), str(tmp_path))
