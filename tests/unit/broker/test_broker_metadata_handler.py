"""Whom clients are told of: never of nobody."""

from __future__ import annotations

from typing import Any

import pytest

from harness.controller_desk import Desk
from tidelog.broker.call import Call
from tidelog.broker.handlers.metadata import MetadataHandler
from tidelog.controller.brokers import fence_gone
from tidelog.controller.topics import NewTopic, create
from tidelog.model.ids import NodeId
from tidelog.wire.frames import RequestHeader
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

ASKED = NodeId(1)


class Connection:
    peer_host = "127.0.0.1"

    def __init__(self, listener_name: str) -> None:
        self.listener_name = listener_name

    def answered(self, call: Call) -> None: ...
    def mute(self) -> None: ...
    def unmute(self) -> None: ...
    def close(self, reason: str) -> None: ...


class NoTopics:
    def create_with_defaults(self, names: list[str], done: Any) -> None:
        raise AssertionError("nothing is to be created")


def handler_of(desk: Desk) -> MetadataHandler:
    return MetadataHandler(ASKED, lambda: desk.image, "a-cluster", lambda: ASKED, lambda: False, NoTopics())


def told_by(desk: Desk, handler: MetadataHandler) -> MetadataResponse:
    (listener,) = desk.image.brokers[ASKED].endpoints
    call = Call(Connection(listener), RequestHeader(MetadataRequest.API_KEY, 12, 0, "a-client", 0))
    response = handler(call, MetadataRequest(topics=None))
    assert isinstance(response, MetadataResponse)
    return response


def brokers_told_by(desk: Desk) -> list[int]:
    return [broker.node_id for broker in told_by(desk, handler_of(desk)).brokers]


@pytest.mark.parametrize(
    ("fenced", "told"),
    [
        pytest.param((), [1, 2, 3], id="all serve"),
        pytest.param((1, 3), [2], id="one serves, and it is another"),
        pytest.param((1, 2, 3), [1], id="nobody serves yet"),
    ],
)
def test_clients_are_told_of_those_that_serve_and_if_nobody_does_of_the_one_that_they_asked(
    fenced: tuple[int, ...], told: list[int]
) -> None:
    desk = Desk(nodes=(1, 2, 3))
    for node in fenced:
        desk.run(fence_gone, NodeId(node), desk.image.brokers[NodeId(node)].epoch)
    assert brokers_told_by(desk) == told


def test_replicas_on_brokers_that_do_not_serve_are_told_as_offline_and_no_longer_than_that() -> None:
    desk = Desk(nodes=(1, 2, 3))
    desk.run(create, [NewTopic("tides", assignments=[(0, [3, 1]), (1, [1, 2])])])
    handler = handler_of(desk)

    def offline() -> list[list[int]]:
        (topic,) = told_by(desk, handler).topics
        return [partition.offline_replicas for partition in topic.partitions]

    assert offline() == [[], []]
    desk.run(fence_gone, NodeId(3), desk.image.brokers[NodeId(3)].epoch)
    assert offline() == [[3], []]
    desk.start(3)
    assert offline() == [[], []]
