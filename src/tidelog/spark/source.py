"""The data source that Spark knows as "tidelog": parses the options and gives out readers and writers.

Spark pickles it and runs it in processes of its own, so it holds nothing but its options.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidelog.spark.batch_reader import BatchReader, FilteringBatchReader
from tidelog.spark.errors import InvalidOption
from tidelog.spark.options import parse_read_options, typed_options_of
from tidelog.spark.rows import typed_schema
from tidelog.spark.schema import chosen_schema, full_schema
from tidelog.spark.stream_reader import StreamReader
from tidelog.spark.write_options import parse_write_options
from tidelog.spark.writers import BatchWriter, stream_writer


class FoundSource(DataSource):
    """The source as Spark finds it by itself, where nobody has allowed filters to be pushed down."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType | str:
        """All columns, or those that option `columns` names: what is not asked for is not even decoded."""
        typed = typed_options_of(self.options)
        if typed is not None:
            return typed_schema(typed, self.options)
        columns = self.options.get("columns")
        if columns is not None:
            return chosen_schema(columns)
        return full_schema(self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(parse_read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(parse_read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidOption("A topic cannot be overwritten: use mode('append').")
        return BatchWriter(parse_write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return stream_writer(parse_write_options(self.options), schema)


class TidelogSource(FoundSource):
    """The source as `register` makes it known."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilteringBatchReader(parse_read_options(self.options, streaming=False), schema)
