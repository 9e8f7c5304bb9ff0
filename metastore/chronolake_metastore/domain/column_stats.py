"""Column stats: what a writer may report of a file's columns, and how pruning uses it."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from chronolake_metastore.domain.literals import LiteralKind, Value, kind_of, order, parse
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import Bound, ColumnStats, WriteStat


class Range(msgspec.Struct, frozen=True):
    """Statistics of a column in a file: bounds of its values that are not null, and the number of nulls.

    Values lie between the bounds; a bound need not be a value itself. None is unknown.
    """

    least: Value | None = None
    greatest: Value | None = None
    nulls: int | None = None


class Columns(msgspec.Struct, frozen=True):
    """The kind of literals of each column, by its field id; and the greatest field id ever."""

    kinds: dict[int, LiteralKind]
    last_field_id: int


def columns_of(table: Table) -> Columns:
    """The columns that stats may be of."""
    definition = table.definition
    kinds = {field.field_id: kind_of(field.type) for field in definition.schema}
    return Columns(kinds, definition.last_field_id)


def check(columns: Columns, stat: WriteStat) -> None:
    """Raise ``ValueError`` unless the stat's column stats, if it has any, fit the table and each other."""
    seen: set[int] = set()
    for index, stats in enumerate(stat.column_stats or ()):
        try:
            if stats.field_id in seen:
                raise ValueError("the column is named twice")
            seen.add(stats.field_id)
            _check_one(columns, stats, stat.records)
        except ValueError as exc:
            raise ValueError(f"column_stats[{index}], of the field id {stats.field_id}: {exc}") from exc


def _check_one(columns: Columns, stats: ColumnStats, records: int) -> None:
    kind = columns.kinds.get(stats.field_id)
    if kind is None and stats.field_id <= columns.last_field_id:
        # The column was dropped while the file was written, or it is a nested field: no filter can name it, for
        # field ids are not used again.
        return
    if kind is None:
        raise ValueError("the table has no such column")
    if stats.nulls is not UNSET and stats.nulls > records:
        raise ValueError(f"{stats.nulls} nulls in {records} records")
    low, high = _bound(kind, stats.min), _bound(kind, stats.max)
    if low is not None and high is not None:
        least, greatest = order(low), order(high)
        if greatest < least:  # type: ignore[operator]  # both are of the column's type
            raise ValueError(f"min, {stats.min!r}, is greater than max, {stats.max!r}")


def _bound(kind: LiteralKind, literal: Bound | UnsetType) -> Value | None:
    return None if literal is UNSET else parse(kind, literal)
