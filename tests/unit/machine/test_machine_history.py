"""Commands, commits and changes of leader in any order: each command is answered once, never with what can be lost."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tidelog.machine.runtime import Result, Role, Runtime
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset


class Words:
    """A machine that keeps every record it was given."""

    def __init__(self) -> None:
        self.said: list[int] = []

    def replay(self, records: Sequence[int], offset: Offset, epoch: LeaderEpoch) -> None:
        self.said += records
        assert offset == len(self.said) - 1


class Cluster:
    """A log of which a part is committed; a new leader begins with that part and the rest is gone."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.committed = 0
        self.runtime: Runtime[Words, int] = Runtime(Words, self)
        self.runtime.lead(LeaderEpoch(1), Offset(0))
        self.answers: dict[int, list[object]] = {}
        self.order: list[int] = []

    def append(self, records: Sequence[int], epoch: LeaderEpoch) -> Offset:
        self.log += records
        return Offset(len(self.log))

    def submit(self, number: int, records: int) -> None:
        self.answers[number] = []

        def answer(outcome: object) -> None:
            self.answers[number].append(outcome)
            self.order.append(number)
            if not isinstance(outcome, ProtocolError):
                # What the answer speaks of, all of it, is committed.
                assert outcome == self.log[: self.committed][: len(outcome)]  # type: ignore[arg-type]

        new = [number] * records
        self.runtime.submit(lambda words: Result(new, words.said + new), answer)

    def commit(self, count: int) -> None:
        self.committed = min(self.committed + count, len(self.log))
        self.runtime.committed(Offset(self.committed))

    def fail_over(self) -> None:
        del self.log[self.committed :]
        self.runtime.resign()
        assert self.runtime.waiting == 0
        if self.log:
            self.runtime.load(self.log, Offset(len(self.log) - 1), LeaderEpoch(self.runtime.epoch))
        self.runtime.lead(LeaderEpoch(self.runtime.epoch + 1), Offset(len(self.log)))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(0, 3)),
            st.tuples(st.just("commit"), st.integers(1, 4)),
            st.tuples(st.just("fail over"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_each_command_is_answered_once_in_order_and_only_with_what_is_committed(steps: list[tuple[str, int]]) -> None:
    cluster = Cluster()
    for number, (step, count) in enumerate(steps):
        match step:
            case "submit":
                cluster.submit(number, count)
            case "commit":
                cluster.commit(count)
            case "fail over":
                cluster.fail_over()
        assert cluster.runtime.machine.said == cluster.log
    cluster.commit(len(cluster.log))

    assert cluster.runtime.role is Role.LEADING
    assert all(len(answers) == 1 for answers in cluster.answers.values())
    assert cluster.order == sorted(cluster.order)
