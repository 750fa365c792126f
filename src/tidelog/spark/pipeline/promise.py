"""Whether a pipeline into a topic can be exactly once there, asked of the cluster before it runs; `running.py` tells.

The sink asks for itself, in a process of Spark whose words end in a log that nobody reads.
"""

from __future__ import annotations

from tidelog.client.errors import ClientError
from tidelog.spark.errors import InvalidOption
from tidelog.spark.pipeline.definition import PipelineDefinition
from tidelog.spark.pipeline.frames import topic_options
from tidelog.spark.two_phase import can_prepare
from tidelog.spark.write_options import parse_write_options


def less_than_exactly_once(definition: PipelineDefinition) -> str | None:
    """What there is to know before relying on the output; None where it is exactly once, or was asked to be another."""
    if definition.sink.format is not None:
        return None
    try:
        options = parse_write_options(topic_options(definition))
        hindrance = None if options.exactly_once is not None else can_prepare(options)
    except (ClientError, InvalidOption):
        return None  # The query is about to fail of the same, and tells of it.
    return None if hindrance is None else f"at least once: {definition.bootstrap} has no two-phase commit ({hindrance})"
