"""What a Spark job is told when it asks for something that cannot be: sentences that name option, topic and offset."""

from __future__ import annotations


class InvalidOption(ValueError):
    """An option that cannot be read, or that contradicts another; or columns that cannot be written."""


class DataLoss(RuntimeError):
    """Records that should have been read are gone. With `failOnDataLoss=false` the query goes on without them."""


class ReadFailed(RuntimeError):
    """A partition could not be read. Spark tries the task again."""


class SinkFailed(RuntimeError):
    """A batch could not be written as promised. Nothing of it is readable; the query goes on from its checkpoint."""


class BadValue(RuntimeError):
    """A value does not fit the schema, and the query is not to go on without it."""
