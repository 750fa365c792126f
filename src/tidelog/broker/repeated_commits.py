"""The short way of offset commits whose form was seen before: only their offsets are new.

Consumers send hardly any others. Those that came together are one command to the shard of their group, which takes
what it can commit; for all else, and for every error, it steps aside and the request goes the usual way.
"""

from __future__ import annotations

from tidelog.broker.call import AnswersInOrder, Calls
from tidelog.broker.connection import ReadsRuns
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.known_forms import KnownForms
from tidelog.groups.offsets.repeated import CommitRun, RepeatedCommit
from tidelog.groups.refusals import refusal
from tidelog.model.errors import ProtocolError
from tidelog.wire.commit_form import CommitForm, CommitReader, RunOfCommits, Texts
from tidelog.wire.compiler import Output
from tidelog.wire.frames import encode_response
from tidelog.wire.messages.offset_commit import OffsetCommitRequest


class KnownCommit(RepeatedCommit):
    """A commit as its shard sees it, and its form."""

    __slots__ = ("form",)

    def __init__(self, version: int, request: OffsetCommitRequest) -> None:
        super().__init__(version, request)
        self.form = CommitForm(version, request)


class CommitCalls(Calls):
    """The calls of a run, answered together when its records are safe."""

    __slots__ = ("_command", "_run")

    def __init__(self, connection: AnswersInOrder, run: RunOfCommits[KnownCommit], command: CommitRun) -> None:
        self.connection = connection
        self.output = None
        self._run = run
        self._command = command
        self.count = 0

    def committed(self, outcome: ProtocolError | None) -> None:
        calls = zip(self._run.correlation_ids[: self._command.taken], self._run.commits, strict=False)
        frames: list[bytes | bytearray]
        if outcome is None:
            frames = [commit.form.answer(correlation_id) for correlation_id, (commit, _) in calls]
        else:
            # It was decided, and is not, or will never be, written.
            frames = [_refused(correlation_id, commit.form, outcome) for correlation_id, (commit, _) in calls]
        self.output = Output(b"".join(frames))
        self.connection.answered(self)


def _refused(correlation_id: bytes, form: CommitForm, error: ProtocolError) -> Output:
    response = refusal(form.request, form.version, error.code)
    return encode_response(int.from_bytes(correlation_id, signed=True), response, form.version)


class RepeatedCommits:
    """The forms that all connections have sent."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups
        self._forms: KnownForms[Texts, KnownCommit] = KnownForms()

    def learn(
        self, version: int, frame: memoryview, request: OffsetCommitRequest, known: ReadsRuns | None
    ) -> CommitReader | None:
        """Remember the form of a request that went the usual way; gives the reader for the next ones."""
        if not self._forms.has_room(self._groups.now_ms()):
            return None
        reader = known if isinstance(known, CommitReader) else CommitReader()
        texts = reader.learn(version, frame, request)
        if texts is None:
            return None
        if texts not in self._forms:
            self._forms[texts] = KnownCommit(version, request)
        return reader

    def stage(
        self, connection: AnswersInOrder, reader: CommitReader, view: memoryview, position: int, end: int
    ) -> tuple[CommitCalls, int] | None:
        """Take the commits of known forms at the front of view[position:end], and say where the next request begins.

        None when the first of them must go the usual way.
        """
        run = reader.read(view, position, end, self._forms)
        if run is None:
            return None
        command = CommitRun(run.commits, self._groups.now_ms())
        calls = CommitCalls(connection, run, command)
        self._groups.ask(run.commits[0][0].committer.group_id, command, calls.committed)
        calls.count = command.taken
        return (calls, run.ends[command.taken - 1]) if command.taken else None
