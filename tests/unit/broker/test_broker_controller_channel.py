"""Requests to the controller end in time, even when it is this very node that does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.call import Call
from tidelog.broker.controller_channel import ControllerChannel
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

HERE = NodeId(1)
REQUEST = BrokerHeartbeatRequest(broker_id=1)


class HandTimers:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waiting: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object]) -> HandTimer:
        entry = (self.now + delay, callback)
        self.waiting.append(entry)
        return HandTimer(self, entry)

    def call_soon(self, callback: Callable[[], object]) -> object:
        return self.call_later(0, callback)

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds
        due = [entry for entry in self.waiting if entry[0] <= self.now]
        for entry in due:
            self.waiting.remove(entry)
            entry[1]()


class HandTimer:
    def __init__(self, timers: HandTimers, entry: tuple[float, Callable[[], object]]) -> None:
        self._timers = timers
        self._entry = entry

    def cancel(self) -> None:
        if self._entry in self._timers.waiting:
            self._timers.waiting.remove(self._entry)


class LedHere:
    controller_id = HERE
    is_controller = True


class Bench:
    def __init__(self) -> None:
        self.timers = HandTimers()
        nobody: Any = None
        self.channel = ControllerChannel(HERE, LedHere(), lambda _: None, nobody, self.timers)
        self.calls: list[Call] = []
        self.channel.serve_here({BrokerHeartbeatRequest: self._keep})
        self.told: list[Any] = []

    def _keep(self, call: Call, request: Any) -> None:
        self.calls.append(call)

    def send(self) -> None:
        self.channel.send(REQUEST, self.told.append, timeout_ms=2000)


def test_what_this_node_answers_is_handed_over_and_nothing_waits_any_more() -> None:
    bench = Bench()
    bench.send()
    response = BrokerHeartbeatResponse()
    bench.calls[0].answer(response)
    assert bench.told == [response]
    assert bench.timers.waiting == []


def test_a_controller_on_this_node_that_cannot_commit_is_not_waited_for_longer_than_one_elsewhere() -> None:
    bench = Bench()
    bench.send()
    bench.timers.pass_seconds(1.9)
    assert bench.told == []
    bench.timers.pass_seconds(0.2)
    (told,) = bench.told
    assert isinstance(told, ProtocolError) and told.code is ErrorCode.REQUEST_TIMED_OUT
    bench.calls[0].answer(BrokerHeartbeatResponse())
    assert bench.told == [told], "a late answer is nobody's any more"


def test_a_controller_that_is_one_no_more_is_asked_again_in_the_time_that_is_left() -> None:
    bench = Bench()
    bench.send()
    bench.calls[0].answer(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
    bench.timers.pass_seconds(0.1)
    response = BrokerHeartbeatResponse()
    bench.calls[1].answer(response)
    assert bench.told == [response]
