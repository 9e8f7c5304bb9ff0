"""Reads and writes of ``format("chronolake")``: the tables that their options name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType

import chronolake
from chronolake.slices import arrow_filters, columns
from chronolake_model import cuts
from chronolake_model.filters import Filter
from chronolake_model.times import digits_of
from chronolake_spark.catalogs import definitions, scans
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.definitions import TableOfSpark
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FormatOptions, QueryView, Use
from chronolake_spark.read import filter_meanings
from chronolake_spark.stream import read_options, tasks


class ByOptions(msgspec.Struct, frozen=True):
    """A request for the table that the options of a read or a write name."""

    given: dict[str, str]


class ReadOfTable(msgspec.Struct, frozen=True):
    """The content of a read: columns, as JSON of Spark, of a state, or of ``changes``, a text of ``scans``."""

    table: TableOfSpark
    schema: str
    view: str
    filter: str | None
    changes: str | None


def read(context: CatalogContext, request: ByOptions) -> ReadOfTable:
    """The content that the options of a read name. Raises ``InvalidOption``, ``HistoryCleaned``."""
    options = format_options.parse(request.given, Use.READ)
    format_options.refuse_options_of_read_streams(options)
    table = context.table(options.table)
    definition = table.definition
    as_of = cuts.moment_of(options.as_of, definition)
    loaded = definitions.loaded(definition, None if as_of is None else digits_of(as_of))
    meta = [StructField(name, StringType(), False) for name in columns.META if options.meta_columns]
    shown = StructType([*meta, *StructType.fromJson(msgspec.json.decode(loaded.schema))])
    # Refused here, before the first query of the frame.
    wanted = (
        None if options.filter is None else filter_meanings.parse(context.spark, options.filter, definition)
    )
    changes = None
    if options.view is QueryView.CHANGES:
        shown.add(columns.CHANGE_TYPE, StringType(), False)
        changes = scans.text_of(_changed(table, options, shown, wanted))
    return ReadOfTable(loaded, shown.json(), str(options.view), options.filter, changes)


def check_stream(context: CatalogContext, request: ByOptions) -> None:
    """Raise ``InvalidOption`` if the options of a stream that is read are wrong."""
    del context
    read_options.parse(
        {"view": QueryView.CHANGES, **{name.lower(): text for name, text in request.given.items()}}
    )


def written_table(context: CatalogContext, request: ByOptions) -> TableOfSpark:
    """The table that the options of a write name. Raises ``InvalidOption``, ``TableNotFound``."""
    options = format_options.parse(request.given, Use.WRITE)
    return definitions.loaded(context.table(options.table).definition)


def _changed(
    table: chronolake.Table, options: FormatOptions, shown: StructType, wanted: Filter | None
) -> list[InputPartition]:
    partitions = tasks.of_range(table, table.changes(options.from_, options.to), shown, None)
    if wanted is None:
        return partitions
    types = {field.name: field.type for field in table.definition.schema}
    return [MatchingRows(partition, wanted, types) for partition in partitions]


@dataclass(frozen=True)
class MatchingRows(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """The rows of a partition that match a filter, whose columns have these types."""

    partition: Any
    wanted: Filter
    types: Mapping[str, str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, on an executor."""
        for batch in self.partition.batches():
            rows = pa.Table.from_batches([batch])
            yield from arrow_filters.matching(rows, self.wanted, self.types).to_batches()
