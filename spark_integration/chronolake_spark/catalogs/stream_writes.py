"""Streams that write tables, by ``format("chronolake")`` or ``toTable``: Java's sink hands over each batch."""

from __future__ import annotations

import threading
import uuid
from typing import Any, Final

import msgspec
from pyspark.sql.types import StructType

from chronolake_model import decoding
from chronolake_spark import errors
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import Use
from chronolake_spark.stream import failures, starts
from chronolake_spark.stream.batch_writer import BatchWriter

_CLUSTERED: Final = "__clustering_columns"
"""The option by which Spark hands ``clusterBy`` over."""
_LOCK = threading.Lock()
_WRITERS: Final[dict[str, BatchWriter]] = {}
"""The writers of the queries that run, by the ids of their sinks, which no other process gives again."""


class NewSink(msgspec.Struct, frozen=True):
    """A request for a sink, as the options of a query, and its modes, describe it."""

    given: dict[str, str]
    output_mode: str
    is_partitioned: bool


class SinkOfRows(msgspec.Struct, frozen=True):
    """A request to check that rows of a schema, as JSON of Spark, fit the options of a query."""

    given: dict[str, str]
    schema: str


class BatchOfSink(msgspec.Struct, frozen=True):
    """A request to write a batch: a frame, which Java calls so."""

    sink: str
    batch: int
    frame: str


def new_sink(context: CatalogContext, request: NewSink) -> str:
    """The id of a new sink. Raises ``InvalidOption``, and what ``BatchWriter.check`` raises."""
    del context
    is_partitioned = request.is_partitioned or _CLUSTERED in request.given
    starts.refuse_modes(request.output_mode, is_partitioned=is_partitioned)
    writer = _writer(request.given)
    # The query would fail at its first batch, which may come much later.
    writer.check()
    with _LOCK:
        sink = uuid.uuid4().hex
        _WRITERS[sink] = writer
    return sink


def check_rows(context: CatalogContext, request: SinkOfRows) -> None:
    """Raise ``SchemaMismatch`` if the rows of a query do not fit its options."""
    struct = StructType.fromJson(decoding.decode(request.schema, dict[str, Any]))
    _writer(request.given).check(context.spark.createDataFrame([], struct))


def write_batch(context: CatalogContext, request: BatchOfSink) -> bool:
    """Write a batch, unless it was written before; false if the query was stopped meanwhile.

    Raises ``TableMismatch`` if the query is of another table of this name, and what ``BatchWriter`` raises.
    """
    writer = _WRITERS.get(request.sink)
    if writer is None:
        raise errors.StreamMismatch(
            "the Python process of the catalog has ended after the query began: start the query again, and it "
            "continues where it stopped"
        )
    if context.table_id is not None:
        context.table(writer.table)
    try:
        writer(context.frame(request.frame), request.batch)
    except failures.QueryStopped:
        return False
    return True


def end_sink(sink: str) -> None:
    """Let go of a sink, whose query has ended."""
    with _LOCK:
        _WRITERS.pop(sink, None)


def _writer(given: dict[str, str]) -> BatchWriter:
    starts.refuse_asynchronous(given)
    own = {name: text for name, text in given.items() if name.lower() not in starts.OF_SPARK}
    return starts.writer_of(format_options.parse(own, Use.WRITE_STREAM))
