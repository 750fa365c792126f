"""What a Spark job is told when it asks for something that cannot be: sentences that name option, topic and offset."""

from __future__ import annotations


class InvalidOption(ValueError):
    """An option that cannot be read, or that contradicts another."""


class DataLoss(RuntimeError):
    """Records that should have been read are gone. With `failOnDataLoss=false` the query goes on without them."""
