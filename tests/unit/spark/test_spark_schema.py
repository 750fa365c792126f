"""Columns of topics as Spark gets them."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.spark.schema import ARROW_TYPES, for_spark


def test_a_record_without_headers_has_null_there_as_in_sparks_connector() -> None:
    some, none = [{"key": "n", "value": b"1"}, {"key": "null", "value": None}], []
    headers = pa.array([none, some, none], ARROW_TYPES["headers"])
    batch = pa.RecordBatch.from_arrays([headers], names=["headers"])
    assert for_spark(batch, ["headers"]).column("headers").to_pylist() == [None, some, None]
    assert for_spark(batch.slice(1), ["headers"]).column("headers").to_pylist() == [some, None]
