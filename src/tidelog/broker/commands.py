"""How handlers reach the controller: a command goes in, its outcome comes back when it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.model.errors import ProtocolError
from tidelog.wire.schema import Message

ReplyT = TypeVar("ReplyT")


class Commands(Protocol):
    """The active controller, here or (later) behind a connection."""

    def submit(
        self,
        command: Callable[[Controller], Result[Message, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None: ...
