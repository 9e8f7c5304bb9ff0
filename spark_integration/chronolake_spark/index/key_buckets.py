"""The buckets of the records that a filter wants: in a table with buckets, no other slice has one of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

import chronolake
from chronolake import _keys
from chronolake_model.file_names import bucket_of
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import PARTS_MAX, And, Compare, ComparisonOperator, Filter, In, Literal
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType

_TYPES: Final[Mapping[str, type]] = {
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "string": str,
}
"""The types of key fields whose values in a filter have one text, and what these values are."""


def slices_of(table: chronolake.Table, snapshot: Snapshot, filter_: Filter | None) -> Sequence[FileSlice]:
    """The slices of a snapshot that may have records for which the filter holds, by its keys alone."""
    keys = keys_of(filter_, table.definition)
    if keys is None:
        return snapshot.slices
    # Fetched after the slices: so it knows their number of buckets.
    count = table.reload().definition.buckets_as_of(snapshot.as_of)
    texts = [pa.array(map(str, values), pa.large_string()) for values in zip(*keys, strict=True)]
    buckets = set(_keys.buckets(texts, count).tolist())
    return [slice_ for slice_ in snapshot.slices if bucket_of(slice_.file_id) in buckets]


def keys_of(filter_: Filter | None, table: Table) -> list[tuple[Literal, ...]] | None:
    """The keys that records must have for the filter to hold; None if it names none, or too many."""
    if filter_ is None or table.index.type is not IndexType.BUCKET or not table.record_key_fields:
        return None
    types = {field.name: field.type for field in table.schema}
    values = []
    for name in table.record_key_fields:
        wanted = _values(filter_, name)
        # Not an instance of a subclass: true is no number here.
        if wanted is None or any(type(value) is not _TYPES.get(types[name]) for value in wanted):
            return None
        values.append(wanted)
    return None if math.prod(map(len, values)) > PARTS_MAX else list(itertools.product(*values))


def _values(filter_: Filter, column: str) -> Sequence[Literal] | None:
    """The values that the column must have one of; None if the filter does not say."""
    match filter_:
        case Compare() if filter_.column == column and filter_.operator is ComparisonOperator.EQUAL:
            return [filter_.value]
        case In() if filter_.column == column:
            return filter_.values
        case And():
            found = (_values(part, column) for part in filter_.filters)
            return next((values for values in found if values is not None), None)
        case _:
            return None
