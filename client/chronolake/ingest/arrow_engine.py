"""The engine of ``chronolake ingest`` without Spark: this process reads and writes the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

import chronolake
from chronolake.ingest import loaded_files, operations, schema_merges
from chronolake.ingest.job import Load
from chronolake.slices import arrow_types, columns, errors
from chronolake.writing import conversions, incoming, writable_tables
from chronolake.writing.incoming import RowTreatment
from chronolake_model import column_types
from chronolake_model.instants import Instant
from chronolake_model.tables import Field, SchemaField, Table
from chronolake_model.vocabulary import Operation

LOAD_BYTES_MAX: Final = 4 << 30
"""The most that the values of one commit may take in memory.

The rows of one file group, by default a fourth of all, are in memory several times while it is written.
"""
_TREATMENT = RowTreatment(operation=Operation.UPSERT, is_of_files=True)


class ArrowEngine:
    """An ``IngestEngine`` of ``chronolake.ingest.job``. Rows beyond some hundred megabytes are on the disk."""

    kept_bytes = 512 * 2**20

    def fields(self, load: Load) -> list[Field]:
        """As ``IngestEngine.fields``. Partitions derive no columns: that takes Spark."""
        return load.reader.rows.fields

    def merged(self, table: Table, load: Load) -> Table:
        """As ``IngestEngine.merged``."""
        return schema_merges.changed(table, schema_merges.given(table, load))[1]

    def dry_run(self, table: Table, load: Load) -> int:
        """As ``IngestEngine.dry_run``."""
        with contextlib.closing(incoming.HeldRows()) as held:
            incoming.prepare(writable_tables.check(table), _reader(load, table), _TREATMENT, held)
            return held.count

    def upsert(self, table: chronolake.Table, load: Load) -> Instant:
        """As ``IngestEngine.upsert``."""
        if load.request.merge_schema:
            if (merged := self.merged(table.definition, load)) != table.definition:
                # The table changes only for files that it can take.
                self.dry_run(merged, load)
            schema_merges.apply(table, load)
        rows = _reader(load, table.definition)
        return table._write_rows(rows, _TREATMENT, load.metadata, on_conflict="fail", markers=None).instant


def _reader(load: Load, table: Table) -> pa.RecordBatchReader:
    """The rows of the files in their order. At their end it raises ``SourceChanged`` for files that changed."""
    op_column = (load.request.op_column or "").lower()
    own = {field.name.lower() for field in table.schema}
    given = schema_merges.given(table, load) if load.request.merge_schema else []
    new = [field for field in given if field.name.lower() not in own]
    stated = {field.name: SchemaField(field.name, field.type, field_id=1) for field in new}
    fields = [
        pa.field(columns.DELETE, pa.bool_())
        if field.name.lower() == op_column
        else pa.field(field.name, arrow_types.of(column_types.parse((stated.get(field.name) or field).type)))
        for field in load.reader.rows.fields
    ]
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        bytes_left = LOAD_BYTES_MAX
        for part in load.reader.parts(load.files):
            for batch, _ in load.reader.rows.batches(part):
                if (bytes_left := bytes_left - batch.nbytes) < 0:
                    raise _too_large(part.file)
                values = [
                    _deletes(batch[name])
                    if name.lower() == op_column
                    else _stated(batch[name], stated.get(name))
                    for name in batch.schema.names
                ]
                yield pa.RecordBatch.from_arrays(values, schema=schema)
        loaded_files.refuse_changed_files(load.states)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _too_large(file: Path) -> errors.SourceUnreadable:
    return errors.SourceUnreadable(
        f"{file}: the values of the commit up to here take more than {LOAD_BYTES_MAX >> 20:,} MiB of memory, "
        "too many for a load without Spark: use --engine spark, or load several files by --one-commit-per-file",
        {"file": str(file)},
    )


def _stated(values: pa.Array, field: SchemaField | None) -> pa.Array:
    """The values of a column that the table gets, in its type."""
    if field is None:
        return values
    return conversions.converted(pa.chunked_array([values]), field, is_utc_without_zone=True).combine_chunks()


def _deletes(values: pa.Array) -> pa.Array:
    """For each row whether its operation deletes."""
    names = pc.utf8_lower(pc.utf8_trim(values.cast(pa.string()), " "))
    return pc.is_in(names, value_set=pa.array(operations.DELETES))
