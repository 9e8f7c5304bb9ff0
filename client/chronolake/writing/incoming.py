"""Rows that a caller gives to a write of the client: in Arrow, tagged, and checked before an instant begins.

Memory holds some hundred megabytes of them. More are spilled to a file without a name on the local disk.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from chronolake.slices import arrow_types, columns, errors, merge, text_hashes
from chronolake.slices.merge import Existing
from chronolake.slices.text_hashes import Hashes
from chronolake.writing import (
    arrow_tags,
    column_names,
    conversions,
    python_values,
    row_checks,
    task_rows,
)
from chronolake.writing.choices import Replaces
from chronolake.writing.column_names import ARROW
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import IndexType, Operation, TableType

GivenRows: TypeAlias = Any
"""Arrow, pandas or polars: a table, a frame or a reader; a dict of columns; or a list of dicts."""

_TaggedBatch: TypeAlias = "tuple[pa.RecordBatch, Hashes | None]"
_THREADS: Final = 2
_BATCH_BYTES_MAX: Final = 2**29
"""A record key, too, is a text: of several columns, it is longer than all of their texts."""
_KINDS: Final = "a table or reader of Arrow, a frame of pandas or polars, a dict of columns, or a list of dicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTreatment:
    """How a write treats its rows.

    ``replaces`` are the file groups that it replaces, None if it changes them. ``is_based_on_reads`` if it
    conflicts with any change since its begin. ``is_of_files`` if the last of several rows of one key wins, the
    column ``columns.DELETE``, if there is one, says which rows delete, and there may be no rows.
    """

    operation: Operation
    existing: Existing = Existing.MERGE
    replaces: Replaces | None = None
    is_based_on_reads: bool = False
    is_of_files: bool = False

    @property
    def deletes(self) -> bool:
        """Whether the rows delete records."""
        return self.operation is Operation.DELETE


class HeldRows:
    """Batches that can be read several times."""

    def __init__(self, bytes_max: int = task_rows.HELD_BYTES_MAX) -> None:
        self._bytes_left = bytes_max
        self._batches: list[pa.RecordBatch | int] = []
        self._key_hashes: list[Hashes] | None = []
        self._spill = task_rows.Spill()
        self.count = 0

    def add(self, batch: pa.RecordBatch, key_hashes: Hashes | None = None) -> None:
        """Add a batch, with the hashes of its keys if there are any, before the first is read."""
        self.count += len(batch)
        self._bytes_left -= batch.nbytes
        self._batches.append(batch if self._bytes_left >= 0 else self._spill.add(batch))
        if key_hashes is None or self._bytes_left < 0:
            self._key_hashes = None
        elif self._key_hashes is not None:
            self._key_hashes.append(key_hashes)

    def have_distinct_keys(self) -> bool:
        """Whether all keys certainly differ; they may also if it is false. Asked once, after the last batch."""
        hashes, self._key_hashes = self._key_hashes, None
        return text_hashes.are_distinct(np.concatenate(hashes)) if hashes else False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            yield self._spill.read(batch) if isinstance(batch, int) else batch

    def close(self) -> None:
        """Remove the file."""
        self._spill.close()


@dataclass(frozen=True, slots=True)
class Incoming:
    """The rows of a write, which fit ``table``.

    The columns ``kept_columns`` keep their stored values. If it ``has_distinct_keys``, no row needs to be
    compared with the others.
    """

    table: Table
    treatment: RowTreatment
    rows: HeldRows
    kept_columns: Sequence[str] = ()
    has_distinct_keys: bool = False


def prepare(table: Table, given: GivenRows, treatment: RowTreatment, held: HeldRows) -> Incoming:
    """The rows, tagged for ``table``, in ``held``, which the caller closes.

    Raises ``SchemaMismatch``, ``InvalidRecordKey``, ``InvalidPartitionValue``, ``InvalidText``,
    ``RequiredValueMissing``, ``InvalidOrderingValue``, ``DuplicateKeys``; ``ValueError`` if there are none, and
    ``TypeError`` for what has no rows.
    """
    schema, batches = _batches_of(table, given, deletes=treatment.deletes)
    names = [name for name in schema.names if not (treatment.is_of_files and name == columns.DELETE)]
    sources = _sources(table, names, treatment)
    is_upsert = treatment.operation is Operation.UPSERT
    kept_columns = column_names.lacking(table, sources) if is_upsert else ()
    for batch, key_hashes in _tagged(table, batches, sources, treatment):
        held.add(batch, key_hashes)
    if not held.count and not treatment.is_of_files:
        _check_no_rows(table, given, treatment)
    incoming = Incoming(table, treatment, held, kept_columns, held.have_distinct_keys())
    _check(incoming)
    return incoming


def _check_no_rows(table: Table, given: GivenRows, treatment: RowTreatment) -> None:
    if treatment.replaces is not Replaces.TABLE:
        raise ValueError(f"there are no rows to write into {table.name}: nothing was changed")
    if not (hasattr(given, "__len__") or hasattr(given, "collect")):
        raise ValueError(
            f"the {type(given).__name__} for {table.name} gives no rows: it may have been read before. To "
            "empty the table, give an empty list; nothing was changed"
        )


def _batches_of(table: Table, given: GivenRows, *, deletes: bool) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        rows = _in_arrow(table, given, deletes=deletes)
    except (ValueError, OverflowError, pa.ArrowTypeError, pa.ArrowNotImplementedError) as exc:
        raise errors.SchemaMismatch(f"the rows for {table.name} cannot be columns: {exc}") from exc
    if isinstance(rows, pa.Table):
        return rows.schema, rows.to_batches()
    return rows.schema, rows


def _in_arrow(table: Table, given: GivenRows, *, deletes: bool) -> pa.Table | pa.RecordBatchReader:
    if isinstance(given, pa.Table | pa.RecordBatchReader):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if type(given).__module__.startswith("pandas.") and hasattr(given, "columns"):
        python_values.refuse_changed_times(given.items())
        return pa.Table.from_pandas(given, preserve_index=False)
    if hasattr(given, "collect") and hasattr(given, "collect_schema"):
        given = given.collect()  # a lazy frame of polars
    if hasattr(given, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(given)
    if isinstance(given, Mapping):
        return python_values.table_of(given, table.schema)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray | memoryview):
        return _of_list(table, given, deletes=deletes)
    raise TypeError(f"rows are {_KINDS}, not {type(given).__name__}")


def _of_list(table: Table, given: Sequence[Any], *, deletes: bool) -> pa.Table:
    """A table of dicts; of deletes also of keys, if one column makes the key and finds the record."""
    if not given:
        return arrow_types.own_layout(table.schema).empty_table()
    if all(isinstance(row, Mapping) for row in given):
        for number, row in enumerate(given):
            _refuse_other_columns(table, number, row, given[0])
        return python_values.table_of({name: [row[name] for row in given] for name in given[0]}, table.schema)
    needed = column_names.needed_for_delete(table)
    if deletes and len(needed) == 1 and not any(isinstance(key, Mapping | tuple | list) for key in given):
        return python_values.table_of({needed[0]: given})
    kind = type(given[0]).__name__
    if deletes and len(needed) > 1:
        raise TypeError(
            f"a record of {table.name} is found by {', '.join(needed)}: give dicts, not a list of {kind}"
        )
    raise TypeError(f"rows are {_KINDS}, not a list of {kind}")


def _refuse_other_columns(table: Table, number: int, row: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    """Raise ``SchemaMismatch`` for a dict with other columns than the first: a null would erase a value."""
    if row.keys() != first.keys():
        column = min(row.keys() ^ first.keys(), key=str)
        lacking, having = (number, 0) if column in first else (0, number)
        raise errors.SchemaMismatch(
            f"the dicts for {table.name} have different columns: dict {lacking} lacks {column}, which dict "
            f"{having} has; give None for a null, or write dicts with other columns on their own",
            {"columns": [column]},
        )


def _sources(table: Table, names: Sequence[str], treatment: RowTreatment) -> dict[str, str]:
    """For each column of the table the name that the rows have for it; refuses missing and unknown columns."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise errors.SchemaMismatch(
            f"the data for {table.name} has the columns {', '.join(repeated)} more than once: rename or drop "
            "them",
            {"columns": repeated},
        )
    wanted = [field.name for field in table.schema]
    if treatment.deletes:
        needed = column_names.needed_for_delete(table)
        wanted = list(dict.fromkeys([*needed, *table.partition_fields, *table.ordering_fields]))
        sources = column_names.sources_of(names, wanted, case_sensitive=False)
        column_names.refuse_some_of_ordering(table, sources)
        missing = [name for name in needed if name not in sources]
        column_names.refuse_missing_of_delete(table, missing, names, ARROW)
        return sources
    sources = column_names.sources_of(names, wanted, case_sensitive=False)
    optional = column_names.lacking(table, sources) if treatment.operation is Operation.UPSERT else []
    missing = [name for name in wanted if name not in sources and name not in optional]
    known = set(sources.values())
    column_names.refuse_others(table, missing, [name for name in names if name not in known], ARROW)
    return sources


def _tagged(
    table: Table, batches: Iterable[pa.RecordBatch], sources: Mapping[str, str], treatment: RowTreatment
) -> Iterator[_TaggedBatch]:
    fields = [field for field in table.schema if field.name in sources]
    own = {field.name: field.name for field in fields}
    tagging = arrow_tags.Tagging(table, arrow_types.own_layout(table.schema), own, treatment.deletes)

    def tagged(batch: pa.RecordBatch, first: int) -> list[_TaggedBatch]:
        given = {field.name: pa.chunked_array([batch.column(sources[field.name])]) for field in fields}
        rows = pa.table({field.name: _converted(given[field.name], field, treatment) for field in fields})
        result = tagging.tagged(rows)
        if treatment.is_of_files:
            result = _ordered(result, batch, table, first)
        parts = result.combine_chunks().to_batches()
        return [(part, None if treatment.is_of_files else _hashes_of_keys(part)) for part in parts]

    first = 0
    pending: deque[Future[list[_TaggedBatch]]] = deque()
    with ThreadPoolExecutor(_THREADS) as threads:
        for batch in itertools.chain.from_iterable(map(_parts, batches)):
            pending.append(threads.submit(tagged, batch, first))
            first += len(batch)
            if len(pending) > _THREADS:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _hashes_of_keys(batch: pa.RecordBatch) -> Hashes | None:
    return text_hashes.of(batch[columns.RECORD_KEY].cast(pa.large_string()))


def _converted(values: pa.ChunkedArray, field: SchemaField, treatment: RowTreatment) -> pa.ChunkedArray:
    return conversions.converted(values, field, is_utc_without_zone=treatment.is_of_files)


def _ordered(tagged: pa.Table, batch: pa.RecordBatch, table: Table, first: int) -> pa.Table:
    """Tagged rows with their flags of deletes, and with their number as the last column that orders them."""
    if columns.DELETE in batch.schema.names:
        index = tagged.column_names.index(columns.DELETE)
        tagged = tagged.set_column(index, columns.DELETE, batch[columns.DELETE])
    order = arrow_tags.order_columns(table)
    numbers = pa.array(np.arange(first, first + len(batch)))
    index = len(columns.CONTROL) + len(order)
    return tagged.add_column(index, f"{columns.ORDER_PREFIX}{len(order)}", numbers)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts whose texts one array of the table's types can hold: 2 GiB of them. None is empty."""
    size = batch.nbytes
    if size <= _BATCH_BYTES_MAX or len(batch) <= 1:
        yield from [batch] if len(batch) else []
        return
    half = len(batch) // 2
    halves = batch.slice(0, half), batch.slice(half)
    if max(of_half.nbytes for of_half in halves) < size:
        for of_half in halves:
            yield from _parts(of_half)
    else:
        # Of views and dictionaries each part counts the texts of all.
        rows = max(1, len(batch) * _BATCH_BYTES_MAX // size)
        yield from (batch.slice(first, rows) for first in range(0, len(batch), rows))


def _check(incoming: Incoming) -> None:
    """Refuse rows that the writer of a file group would refuse without a look at stored records."""
    table, existing = incoming.table, incoming.treatment.existing
    has_log = table.type is TableType.MERGE_ON_READ
    kept = incoming.kept_columns
    required = [of.name for of in table.schema if not of.nullable and of.name not in kept]
    is_global = table.index.type is IndexType.RECORD
    # Of files the order of the rows decides, so no check compares the rows of a key.
    compares = not (incoming.treatment.is_of_files or incoming.has_distinct_keys)
    portions: Iterable[pa.Table]
    if compares:
        portions = _by_key(incoming.rows, is_global=is_global)
    else:
        portions = (pa.Table.from_batches([batch]) for batch in incoming.rows)
    for rows in portions:
        row_checks.check_required(rows, required)
        row_checks.check_delete_flags(rows)
        row_checks.check_ordering(rows, table.merge_fields if has_log else ())
        if not compares:
            continue
        latest = merge.latest_per_key(rows, table.merge_fields)
        if existing is Existing.FAIL and len(latest.records) < len(rows):
            key, _ = row_checks.repeated(rows)
            raise row_checks.existing_keys(table, len(rows) - len(latest.records), key)
        if latest.ambiguous:
            raise row_checks.ambiguous_order(latest, row_checks.ORDER_BY_FIELD)


def _by_key(rows: HeldRows, *, is_global: bool) -> Iterator[pa.Table]:
    """The rows in portions, each of which has all rows of its keys."""
    batches: Iterable[pa.RecordBatch] = rows
    if is_global:  # A key may have another partition in each row.
        batches = (_without_paths(batch) for batch in rows)
    grouped = task_rows.by_file_group(batches)
    runs = (run for batch in grouped for run in task_rows.runs_of(batch))
    return (group for _, group in task_rows.file_groups(runs))


def _without_paths(batch: pa.RecordBatch) -> pa.RecordBatch:
    index = batch.schema.get_field_index(columns.PARTITION_PATH)
    return batch.set_column(index, columns.PARTITION_PATH, pa.repeat(pa.scalar(""), len(batch)))
