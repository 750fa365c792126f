"""What a pipeline says of its sink before it runs: nothing where the topic is written exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import tidelog
from tidelog.spark.pipeline.definition import PipelineDefinition, SinkDefinition, SourceDefinition
from tidelog.spark.pipeline.promise import less_than_exactly_once


@pytest.fixture(scope="module")
def without() -> Iterator[PipelineDefinition]:
    with tidelog.Broker() as running:
        yield definition(running)


def definition(broker: tidelog.Broker) -> PipelineDefinition:
    sources = (SourceDefinition("orders", "orders"),)
    return PipelineDefinition("p", sources, SinkDefinition("out"), "select 1", bootstrap=broker.bootstrap_servers)


def test_a_cluster_without_two_phase_commit_is_named_with_its_setting(without: PipelineDefinition) -> None:
    said = less_than_exactly_once(without)

    assert said is not None and said.startswith(f"at least once: {without.bootstrap}")
    assert "transaction.two.phase.commit.enable is false" in said


def test_nothing_is_said_where_it_is_exactly_once() -> None:
    with tidelog.Broker(config={"transaction.two.phase.commit.enable": "true"}) as broker:
        assert less_than_exactly_once(definition(broker)) is None


@pytest.mark.parametrize(
    "sink",
    [
        SinkDefinition("out", options={"exactlyOnce": "false"}),
        SinkDefinition("out", options={"exactlyOnce": "perhaps"}),
        SinkDefinition(format="parquet", path="lake"),
    ],
    ids=["as asked", "a mistake that the query tells", "a lake"],
)
def test_nothing_is_said_where_others_say_it(without: PipelineDefinition, sink: SinkDefinition) -> None:
    assert less_than_exactly_once(replace(without, sink=sink)) is None
