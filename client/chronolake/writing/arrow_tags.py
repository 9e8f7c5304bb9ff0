"""Tags rows in Arrow as ``writes.tagged`` tags frames: record key, partition path, bucket, is a row a delete.

It runs on executors: wholly for writes that Spark does not shuffle, and for the record keys of others, because
Arrow makes them faster than Spark sends them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronolake import _keys
from chronolake.slices import arrow_types, columns, errors, ordering_values
from chronolake.writing import column_names, conversions, key_refusals, partition_lengths, text_checks
from chronolake_model import partition_paths
from chronolake_model.partition_paths import DEFAULT_PARTITION, Spelling
from chronolake_model.tables import SchemaField, Table

_VECTORIZED: Final = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "string"})
"""The types of key fields whose texts Arrow makes without a call in Python for each value."""


def omitted_columns(table: Table, *, only_inserts: bool) -> list[str]:
    """The control columns that ``with_control_columns`` adds to rows of the table, so that Spark sends less.

    ``only_inserts`` if no row deletes.
    """
    omitted = [columns.DELETE] if only_inserts else []
    if not table.partition_fields:
        omitted.append(columns.PARTITION_PATH)
    types = {field.type.strip().lower() for field in _fields(table, table.record_key_fields)}
    return [*omitted, columns.RECORD_KEY] if types <= _VECTORIZED else omitted


def with_control_columns(batches: Iterable[pa.RecordBatch], table: Table) -> Iterator[pa.RecordBatch]:
    """The batches with those of ``omitted_columns`` that they lack. Raises ``InvalidRecordKey``."""
    for batch in batches:
        rows, names = batch, batch.schema.names
        if columns.RECORD_KEY not in names:
            has_keys = bool(table.record_key_fields)
            made = _record_keys(table, _key_texts(table, rows)) if has_keys else _new_keys(len(rows))
            rows = rows.append_column(columns.RECORD_KEY, made)
        if columns.PARTITION_PATH not in names:
            # A dictionary, because each reader of file groups would encode texts again.
            no_path = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(rows)), [""])
            rows = rows.append_column(columns.PARTITION_PATH, no_path)
        if columns.DELETE not in names:
            rows = rows.append_column(columns.DELETE, pa.repeat(pa.scalar(False), len(rows)))
        yield rows


def in_buckets(batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """Tagged rows in the buckets of the table."""
    numbers = pa.array(_keys.buckets(_key_texts(table, batch), table.index.buckets), pa.int32())
    return batch.set_column(batch.schema.get_field_index(columns.BUCKET), columns.BUCKET, numbers)


def order_columns(table: Table) -> dict[str, str]:
    """The columns that order the rows of one key in one write, and the columns of the table that they have.

    Where the later write wins, an ordering field still decides between the rows of one write.
    """
    fields = () if table.merge_fields else table.ordering_fields
    return {f"{columns.ORDER_PREFIX}{number}": name for number, name in enumerate(fields)}


@dataclass(frozen=True, slots=True)
class Tagging:
    """How rows are tagged. ``sources`` has the name that the rows have for each column of the table."""

    table: Table
    layout: pa.Schema
    sources: Mapping[str, str]
    deletes: bool

    def tagged(self, rows: pa.Table) -> pa.Table:
        """The control columns, ``order_columns``, then the table's columns, null where the rows lack them.

        Raises ``InvalidRecordKey``, ``InvalidPartitionValue``, ``InvalidText``.
        """
        own = {field.name: self._column(rows, field) for field in self.layout}
        text_checks.check(pa.table(own), self.table)
        texts = _key_texts(self.table, own)
        control = {
            columns.RECORD_KEY: _record_keys(self.table, texts),
            columns.PARTITION_PATH: self._partition_paths(own, len(rows)),
            columns.BUCKET: pa.array(_keys.buckets(texts, self.table.index.buckets), pa.int32()),
            columns.DELETE: pa.repeat(pa.scalar(self.deletes), len(rows)),
        }
        order = order_columns(self.table)
        values = ordering_values.of(own, list(order.values()))
        return pa.table(control | dict(zip(order, values, strict=True)) | own)

    def _column(self, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
        source = self.sources.get(field.name)
        if source is None:
            return pa.chunked_array([pa.nulls(len(rows), field.type)])
        return rows[source].cast(field.type)

    def _partition_paths(self, own: Mapping[str, pa.ChunkedArray], count: int) -> pa.Array:
        fields = _fields(self.table, self.table.partition_fields)
        if not fields or partition_paths.are_kept(self.table.properties):
            return pa.repeat(pa.scalar(""), count)
        names = [field.name for field in fields]
        mixed = [field.name for field in fields if key_refusals.mixes_empty(field)]
        if any(pc.any(pc.equal(own[name], "")).as_py() for name in mixed):
            raise errors.InvalidPartitionValue(
                key_refusals.empty_partition(mixed, column_names.plain(mixed[0]))
            )
        if any(
            pc.any(pc.equal(own[f.name], DEFAULT_PARTITION)).as_py() for f in fields if key_refusals.is_text(f)
        ):
            raise errors.InvalidPartitionValue(partition_paths.reserved_message(names))
        spelling = Spelling.of(self.table.properties)
        texts = [_keys.partition_texts(own[field.name], field.type) for field in fields]
        pattern = partition_paths.unwritable(spelling)
        if pattern is not None and any(
            pc.any(pc.match_substring_regex(text, pattern)).as_py() for text in texts
        ):
            raise errors.InvalidPartitionValue(partition_paths.unwritable_message(names))
        paths = _keys.partition_paths(names, texts, spelling).cast(pa.string())
        partition_lengths.check(names, paths.unique().to_pylist(), partition_lengths.path_bytes_max(self.table))
        return paths


def _key_texts(table: Table, rows: Mapping[str, pa.ChunkedArray] | pa.RecordBatch) -> list[pa.Array]:
    return [_keys.texts(rows[field.name], field.type) for field in _fields(table, table.record_key_fields)]


def _record_keys(table: Table, texts: Sequence[pa.Array]) -> pa.Array:
    keys = _keys.record_keys(table.record_key_fields, texts)
    if keys.null_count:
        without = pc.is_null(keys)
        values = [text.filter(without)[0].as_py() for text in texts]
        names = list(table.record_key_fields)
        raise errors.InvalidRecordKey(
            key_refusals.ambiguous_key(names) if any(values) else key_refusals.missing_key(names)
        )
    return keys.cast(pa.string())


def _fields(table: Table, names: Sequence[str]) -> list[SchemaField]:
    by_name = {field.name: field for field in table.schema}
    return [by_name[name] for name in names]


def tagging(table: Table, layout: pa.Schema, sources: Mapping[str, str], *, deletes: bool) -> Tagging:
    """The tagging of rows with this layout. Raises ``SchemaMismatch`` for a column of another type."""
    own = arrow_types.own_layout(table.schema)
    for name, source in sources.items():
        given, wanted = layout.field(source).type, own.field(name).type
        if not conversions.fits(given, wanted):
            raise errors.SchemaMismatch(
                f"the rows do not fit {table.name}: their column {name} is {given}, and the table's is "
                f"{wanted}; cast the column, or import chronolake_spark in the driver, which converts more",
                {"column": name},
            )
    return Tagging(table, own, sources, deletes)


def _new_keys(count: int) -> pa.Array:
    """Keys for records of a table without record key fields, which no other record has."""
    batch = uuid.uuid4().hex
    return pa.array([f"{batch}_{number}" for number in range(count)], pa.string())
