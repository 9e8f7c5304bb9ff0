"""Find columns that could be the record key of undocumented files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from chronolake.ingest import source_files
from chronolake.ingest.formats import Format

PAIR_COLUMNS_MAX = 16
"""Pairs are tried among this many first columns."""


def pick(where: str) -> tuple[str, ...] | None:
    """The first column, or else pair, that is unique and without nulls in every file; None if none is.

    Numbers with fractions and nested values cannot be keys. Raises ``SourceUnreadable``.
    """
    source = source_files.find(where)
    candidates: list[tuple[str, ...]] | None = None
    for file in source.files:
        table = _read(source.format, file)
        if candidates is None:
            candidates = list(_candidates(table.schema))
        candidates = [names for names in candidates if _identifies(table, names)]
    return next(iter(candidates or ()), None)


def _read(format_: Format, file: Path) -> pa.Table:
    match format_:
        case Format.PARQUET:
            return pq.read_table(file, partitioning=None)
        case Format.CSV:
            return pyarrow.csv.read_csv(file)
        case Format.JSON:
            return pyarrow.json.read_json(file)


def _candidates(schema: pa.Schema) -> Iterator[tuple[str, ...]]:
    names = [field.name for field in schema if _may_identify(field.type)]
    yield from ((name,) for name in names)
    yield from itertools.combinations(names[:PAIR_COLUMNS_MAX], 2)


def _may_identify(type_: pa.DataType) -> bool:
    fraction = pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return not (fraction or pa.types.is_nested(type_) or pa.types.is_boolean(type_))


def _identifies(table: pa.Table, names: tuple[str, ...]) -> bool:
    if any(name not in table.column_names or table[name].null_count for name in names):
        return False
    if len(names) == 1:
        return bool(pc.count_distinct(table[names[0]]).as_py() == len(table))
    return bool(table.select(names).group_by(list(names)).aggregate([]).num_rows == len(table))
