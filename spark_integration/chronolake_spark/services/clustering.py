"""Clustering: the records of file groups of a partition, sorted, in new file groups of a target size."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from chronolake.slices import ordering_values
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.file_sizes import FileSizes
from chronolake_model.service_properties import (
    CLUSTERING_LAYOUT,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_TARGET_BYTES,
    CURVE_COLUMNS_MAX,
)
from chronolake_spark import errors
from chronolake_spark.services import curves, sorting
from chronolake_spark.services.curves import Curve, Ranks

if TYPE_CHECKING:
    from chronolake_spark.services.jobs import ServiceJob, ServiceTask

SAMPLE_ROWS: Final = 200_000
"""Rows of a partition by whose values the ranks on a curve are made."""
_LINEAR: Final = "linear"


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """How a clustering lays records out: the size of files, the columns to sort by, a curve through them."""

    target_bytes: int
    sort_columns: Sequence[str]
    curve: Curve | None

    @classmethod
    def of(cls, details: Mapping[str, str], schema: pa.Schema, sizes: FileSizes) -> RecordLayout:
        """The layout that the details of a plan state. Raises ``TableMismatch`` if the table cannot have it.

        Without a size in the details, files get that of ``sizes``.
        """
        names = [name.strip() for name in details.get(CLUSTERING_SORT_COLUMNS, "").split(",") if name.strip()]
        known = {name.lower(): name for name in schema.names}
        unknown = [name for name in names if name.lower() not in known]
        if unknown:
            raise _refused(CLUSTERING_SORT_COLUMNS, details, f"the table has no column {unknown[0]}")
        # A column that is named again orders nothing.
        chosen = list(dict.fromkeys(known[name.lower()] for name in names))
        for name in chosen:
            type_ = schema.field(name).type
            if pa.types.is_nested(type_):
                raise _refused(
                    CLUSTERING_SORT_COLUMNS, details, f"{name} has the type {type_}, which has no order"
                )
        curve = _curve(details)
        if curve is not None and len(chosen) > CURVE_COLUMNS_MAX:
            raise _refused(CLUSTERING_SORT_COLUMNS, details, f"a curve has at most {CURVE_COLUMNS_MAX} columns")
        # A curve through one column is the order of the column.
        return cls(_target_bytes(details, sizes.max_file_size), chosen, curve if len(chosen) > 1 else None)


def new_groups(
    reader: SliceReader, job: ServiceJob, task: ServiceTask
) -> Iterator[tuple[StoredSlice, Iterable[pa.Table], int]]:
    """New file groups: the rows of each, and their largest possible number.

    The rows of one have to be read before the next one comes.
    """
    layout = RecordLayout.of(job.details, reader.layout, FileSizes.of(job.table.properties))
    files = max(1, -(-task.size_bytes // layout.target_bytes))
    records = max(1, -(-task.records // files))
    rows = itertools.chain.from_iterable(map(reader.rows, task.slices))
    path = task.slices[0].partition_path
    for part in _parts(_laid_out(rows, layout, reader, task), records):
        yield StoredSlice(path, f"{uuid.uuid4()}-0", None), part, records


def _laid_out(
    rows: Iterable[pa.Table], layout: RecordLayout, reader: SliceReader, task: ServiceTask
) -> Iterable[pa.Table]:
    names = layout.sort_columns
    if not names:
        return rows
    if layout.curve is None:
        return sorting.in_order(rows, lambda table: [_sortable(table[name]) for name in names])
    curve, bits = layout.curve, curves.bits_of_column(len(names))
    sample = _sample(reader, task, names)
    ranks = {name: Ranks(sample[name], bits) for name in names}

    def position(table: pa.Table) -> list[pa.ChunkedArray]:
        of_columns = [ranks[name].of(_sortable(table[name])) for name in names]
        return [pa.chunked_array([curves.positions(curve, of_columns, bits)])]

    return sorting.in_order(rows, position)


def _sortable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    return ordering_values.comparable(plain)


def _sample(reader: SliceReader, task: ServiceTask, names: Sequence[str]) -> pa.Table:
    """Every n-th row of the slices, with the columns to sort by."""
    every = max(1, task.records // SAMPLE_ROWS)
    layout = pa.schema([reader.layout.field(name) for name in names])
    narrow = SliceReader(reader.folder, layout, reader.fields, reader.ordering)
    rows = itertools.chain.from_iterable(map(narrow.rows, task.slices))
    sampled = [table.take(pa.array(np.arange(0, len(table), every))) for table in rows]
    together = pa.concat_tables([layout.empty_table(), *sampled])
    return pa.table({name: _sortable(together[name]) for name in names})


def _parts(tables: Iterable[pa.Table], rows_max: int) -> Iterator[Iterator[pa.Table]]:
    """The rows in parts of ``rows_max`` rows; the last one may have fewer. None if there are no rows."""
    left = (table for table in tables if len(table))
    pending: pa.Table | None = next(left, None)

    def part() -> Iterator[pa.Table]:
        nonlocal pending
        missing = rows_max
        while pending is not None and missing:
            given = pending.slice(0, missing)
            missing -= len(given)
            pending = pending.slice(len(given)) if len(given) < len(pending) else next(left, None)
            yield given

    while pending is not None:
        yield part()


def _curve(details: Mapping[str, str]) -> Curve | None:
    word = details.get(CLUSTERING_LAYOUT, _LINEAR).strip().lower().replace("_", "-")
    spellings = {_LINEAR: None, "zorder": Curve.Z_ORDER, "z-order": Curve.Z_ORDER, "hilbert": Curve.HILBERT}
    if word not in spellings:
        raise _refused(CLUSTERING_LAYOUT, details, f"it is {', '.join(spellings)}")
    return spellings[word]


def _target_bytes(details: Mapping[str, str], default: int) -> int:
    text = details.get(CLUSTERING_TARGET_BYTES, str(default))
    if not text.strip().isdecimal() or not int(text):
        raise _refused(CLUSTERING_TARGET_BYTES, details, "it is a number of bytes")
    return int(text)


def _refused(name: str, details: Mapping[str, str], reason: str) -> errors.TableMismatch:
    return errors.TableMismatch(
        f"the plan of the clustering has {name}={details.get(name)!r}, and {reason}: roll the plan back, and "
        "correct the property of the table before the next one",
        {"property": name},
    )
