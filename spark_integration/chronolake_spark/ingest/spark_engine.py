"""The Spark engine of ``chronolake ingest``: tasks read the files by ``chronolake.ingest.file_rows``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf
from pyspark.sql.types import LongType, StructField, StructType

import chronolake
from chronolake.errors import ChronolakeError
from chronolake.ingest import operations, request as ingest_request
from chronolake.ingest.file_rows import FilePart, FileRows
from chronolake.ingest.job import Load
from chronolake.ingest.request import IngestRequest
from chronolake.slices import columns
from chronolake.writing import column_names
from chronolake_model.instants import Instant
from chronolake_model.tables import Field, Table
from chronolake_spark import errors, tables
from chronolake_spark.driver import schema, spark_failures
from chronolake_spark.write import casts, schema_merges, writes

_TASKS_PER_CORE = 4


class SparkEngine:
    """Reads and writes through a session. It is an ``IngestEngine`` of ``chronolake.ingest.job``."""

    kept_bytes = 0

    def __init__(self, spark: SparkSession, client: chronolake.Client) -> None:
        self._spark = spark
        self._client = client

    def fields(self, load: Load) -> list[Field]:
        """The columns of the rows, with those that partitions derive. Raises ``SchemaMismatch``."""
        with _readable(load.request.source):
            struct = self._frame(load).drop(*columns.SOURCE_ORDER).schema
        return schema.fields_of(struct)

    def merged(self, table: Table, load: Load) -> Table:
        """As ``IngestEngine.merged``."""
        with _readable(load.request.source):
            return schema_merges.merged(table, self._rows(load, table), **_write_options(load.request))

    def dry_run(self, table: Table, load: Load) -> int:
        """As ``IngestEngine.dry_run``."""
        with _readable(load.request.source):
            return writes.dry_run(self._rows(load, table), table, **_write_options(load.request))

    def upsert(self, table: chronolake.Table, load: Load) -> Instant:
        """As ``IngestEngine.upsert``."""
        own = tables.table(self._spark, table.name, client=self._client)
        with _readable(load.request.source):
            return own.upsert(
                self._rows(load, own.definition),
                extra_metadata=load.metadata,
                file_states=load.states,
                merge_schema=load.request.merge_schema,
                **_write_options(load.request),
            )

    def _rows(self, load: Load, table: Table) -> DataFrame:
        """The rows for a table, which gets new columns on request."""
        frame = self._frame(load)
        return _with_stated_columns(frame, table, load.request) if load.request.merge_schema else frame

    def _frame(self, load: Load) -> DataFrame:
        """The rows with their place, and with the columns that partitions derive from them."""
        order = [StructField(name, LongType(), nullable=False) for name in columns.SOURCE_ORDER]
        parts = load.reader.parts(load.files)
        tasks = min(len(parts), _TASKS_PER_CORE * self._spark.sparkContext.defaultParallelism)
        read = _Read(tuple(parts), tasks, load.reader.rows)
        own = schema.struct_of(load.reader.rows.fields)
        frame = self._spark.range(0, tasks, 1, tasks).mapInArrow(read, StructType([*own, *order]))
        for name, expression in ingest_request.derived_columns(load.request).items():
            frame = _with_derived_column(frame, name, expression)
        return frame


@dataclass(frozen=True, slots=True)
class _Read:
    """The function of a Spark task: it reads parts of files, one after the other."""

    parts: tuple[FilePart, ...]
    tasks: int
    rows: FileRows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in (task for batch in batches for task in batch.column(0).to_pylist()):
            start, end = (len(self.parts) * edge // self.tasks for edge in (task, task + 1))
            for part in self.parts[start:end]:
                try:
                    yield from self._placed(part)
                except ChronolakeError as exc:
                    raise RuntimeError(errors.encoded(exc)) from exc

    def _placed(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        for batch, numbers in self.rows.batches(part):
            file = pa.repeat(pa.scalar(part.number, pa.int64()), len(batch))
            names = [*batch.schema.names, *columns.SOURCE_ORDER]
            yield pa.RecordBatch.from_arrays([*batch.columns, file, numbers], names=names)


@contextlib.contextmanager
def _readable(what: str) -> Iterator[None]:
    """Turn errors of Spark about bad files or expressions into an error that names them."""
    try:
        yield
    except (*spark_failures.EXCEPTIONS, errors.SparkJobFailed) as exc:
        if encoded := errors.decoded(str(exc)):
            raise encoded from exc
        raise errors.SourceUnreadable(f"{what} cannot be ingested: {spark_failures.message_of(exc)}") from exc


def _write_options(request: IngestRequest) -> Mapping[str, Any]:
    return {"delete_when": _delete_condition(request.op_column), "row_order": columns.SOURCE_ORDER}


def _delete_condition(op_column: str | None) -> Column | None:
    if op_column is None:
        return None
    return sf.lower(sf.trim(schema.quoted(op_column))).isin(*operations.DELETES)


def _with_derived_column(frame: DataFrame, name: str, expression: str) -> DataFrame:
    text = f"{name}={expression}"
    if name.lower() in {column.lower() for column in frame.columns}:
        raise errors.SchemaMismatch(
            f"--partition {text} would replace the column {name}; use another name", {"column": name}
        )
    try:
        with spark_failures.unlogged():
            return frame.withColumn(name, sf.expr(expression))
    except AnalysisException as exc:
        raise errors.SchemaMismatch(
            f"--partition {column_names.argument(text)} is no expression over the columns of the files: "
            f"{spark_failures.first_line(exc)}",
            {"column": name},
        ) from exc


def _with_stated_columns(frame: DataFrame, table: Table, request: IngestRequest) -> DataFrame:
    """The frame with stated types for the columns that ``table`` does not have.

    They are to be added to it. Columns that it has are cast when they are written. Raises ``SchemaMismatch`` as
    ``casts.cast`` does.
    """
    stated = ingest_request.stated_types(request)
    own = {field.name.lower() for field in table.schema}
    for field in frame.schema:
        if (type_ := stated.get(field.name.lower())) is None or field.name.lower() in own:
            continue
        column = frame[schema.quoted(field.name)]
        wanted = schema.type_of(type_)
        frame = frame.withColumn(field.name, casts.cast(column, field.name, wanted, field.dataType))
    return frame
