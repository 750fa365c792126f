"""The data source that Spark knows as "tidelog": parses the options and gives out readers and writers.

Spark pickles it and runs it in processes of its own, so it holds nothing but its options. Each stream has a fresh
interpreter that reads no rows and writes none, so that what only those need is imported where it is asked for.
"""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidelog.spark.errors import InvalidOption
from tidelog.spark.options import parse_read_options, typed_options_of
from tidelog.spark.schema import chosen_schema, full_schema


class FoundSource(DataSource):
    """The source as Spark finds it by itself, where nobody has allowed filters to be pushed down."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType | str:
        """All columns, or those that option `columns` names: what is not asked for is not even decoded."""
        typed = typed_options_of(self.options)
        if typed is not None:
            from tidelog.spark.rows import typed_schema

            return typed_schema(typed, self.options)
        columns = self.options.get("columns")
        if columns is not None:
            return chosen_schema(columns)
        return full_schema(self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from tidelog.spark.batch_reader import BatchReader

        return BatchReader(parse_read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_read_options(self.options, streaming=True)
        if find_spec("pyspark.sql.streaming.datasource") is None:
            from tidelog.spark.stream_unlimited import UnlimitedStreamReader

            return UnlimitedStreamReader(options, schema)
        from tidelog.spark.stream_limits import LimitedStreamReader

        return LimitedStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidOption("A topic cannot be overwritten: use mode('append').")
        from tidelog.spark.write_options import parse_write_options
        from tidelog.spark.writers import BatchWriter

        return BatchWriter(parse_write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from tidelog.spark.write_options import parse_write_options
        from tidelog.spark.writers import stream_writer

        return stream_writer(parse_write_options(self.options), schema)


class TidelogSource(FoundSource):
    """The source as `register` makes it known."""

    def reader(self, schema: StructType) -> DataSourceReader:
        from tidelog.spark.batch_reader import FilteringBatchReader

        return FilteringBatchReader(parse_read_options(self.options, streaming=False), schema)
