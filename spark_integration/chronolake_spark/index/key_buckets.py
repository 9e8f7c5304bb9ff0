"""The buckets of the records that a filter wants: in a table with buckets, no other slice has one of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import chronolake
from chronolake.slices import columns
from chronolake_model.file_names import bucket_of
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import PARTS_MAX, And, Compare, ComparisonOperator, Filter, In, Literal
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark.index import lookups

_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "string"})
"""The types whose literals in a filter are values of a key."""


def slices_of(table: chronolake.Table, snapshot: Snapshot, filter_: Filter | None) -> Sequence[FileSlice]:
    """The slices of a snapshot that may have records for which the filter holds, by its keys alone."""
    keys = keys_of(filter_, table.definition)
    if keys is None:
        return snapshot.slices
    # Fetched after the slices: so it knows their number of buckets.
    definition = table.reload().definition
    definition = definition.with_buckets(definition.buckets_as_of(snapshot.as_of))
    buckets = set(lookups.wanted_keys(definition, keys).tags[columns.BUCKET].to_pylist())
    return [slice_ for slice_ in snapshot.slices if bucket_of(slice_.file_id) in buckets]


def keys_of(filter_: Filter | None, table: Table) -> list[tuple[Literal, ...]] | None:
    """The keys that records must have for the filter to hold; None if it names none, or too many."""
    if filter_ is None or table.index.type is not IndexType.BUCKET or not table.record_key_fields:
        return None
    types = {field.name: field.type for field in table.schema}
    values = []
    for name in table.record_key_fields:
        wanted = _values(filter_, name) if types[name] in _TYPES else None
        if wanted is None:
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
