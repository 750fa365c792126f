"""How many partitions clients may create and delete: the quota controller_mutation_rate (KIP-599), on the controller.

The handlers of the controller ask for a `Mutation` and have the commands charge it. Clients that know the error are
refused while they are in debt; older ones get what they ask for. Both are told to pause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelog.broker.call import AnswersInOrder, Call
from tidelog.broker.quotas import ANONYMOUS, Bucket, Limit, Quotas, Windows
from tidelog.broker.timers import Timers
from tidelog.metadata.delta import Delta
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.schema import Response

KEY: Final = "controller_mutation_rate"


def hold_back(timers: Timers, connection: AnswersInOrder, milliseconds: int) -> None:
    """Read nothing more from a client for a while (KIP-219)."""
    connection.mute()
    timers.call_later(milliseconds / 1000, connection.unmute)


class MutationQuotas:
    """Follows the quotas of the cluster."""

    def __init__(self, windows: Windows, timers: Timers, now_ms: Callable[[], int]) -> None:
        self._quotas = Quotas(KEY, windows, Bucket)
        self._timers = timers
        self._now_ms = now_ms

    def apply(self, delta: Delta) -> None:
        if delta.quotas_changed:
            self._quotas.apply(delta.after.quotas)

    def begin(self, call: Call, *, strict_since: int) -> Mutation:
        """The mutations of one request; `strict_since` is the first version whose clients know the error."""
        limit = self._quotas.limit(ANONYMOUS, call.header.client_id or "") if self._quotas.active else None
        return Mutation(call, limit, self._timers, self._now_ms, strict=call.header.api_version >= strict_since)


class Mutation:
    """What one request has to be charged for."""

    def __init__(
        self,
        call: Call,
        limit: Limit[Bucket] | None,
        timers: Timers,
        now_ms: Callable[[], int],
        *,
        strict: bool,
    ) -> None:
        self._call = call
        self._limit = limit
        self._timers = timers
        self._now_ms = now_ms
        self._strict = strict
        # Until when the client has to pause.
        self._until_ms = 0

    def charge(self, partitions: int) -> None:
        """Raises ProtocolError when so many may not be changed now."""
        if self._limit is None:
            return
        now_ms = self._now_ms()
        bound, bucket = self._limit
        if self._strict:
            wait_ms = bucket.wait_ms(bound, now_ms)
            if not wait_ms:
                bucket.charge(bound, partitions, now_ms)
        else:
            wait_ms = bucket.charge(bound, partitions, now_ms)
        self._until_ms = max(self._until_ms, now_ms + wait_ms if wait_ms else 0)
        if wait_ms and self._strict:
            raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

    def answer(self, response: Response) -> None:
        """Answer the call; a client that was charged too much is told, and not read from meanwhile."""
        # Committing took a while, which counts.
        throttle_ms = max(self._until_ms - self._now_ms(), 0) if self._until_ms else 0
        if throttle_ms:
            held: Any = response
            held.throttle_time_ms = throttle_ms
            hold_back(self._timers, self._call.connection, throttle_ms)
        self._call.answer(response)
