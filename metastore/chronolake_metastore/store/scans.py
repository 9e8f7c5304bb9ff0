"""Pruning in SQL: the file groups whose slices could hold a record that meets a condition.

The rules are those of ``domain.pruning`` and ``domain.partition_pruning``. They read what the projection keeps
of each file. Every literal, and every field id, is a parameter. The casts cannot fail: bounds were checked
against their columns when they came, and a column keeps its kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import sql
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Date,
    DateTime,
    Double,
    Numeric,
    Select,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    collate,
    column,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    table,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.types import TypeEngine

from chronolake_metastore.domain.literals import LiteralKind, Value
from chronolake_metastore.domain.partition_pruning import PartitionSet
from chronolake_metastore.domain.pruning import AllOf, AnyOf, Condition, Relation, Test
from chronolake_metastore.store import files
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros

_FILE: Final = table(
    "file",
    column("table_id"),
    column("partition_path", Text),
    column("file_id", Text),
    column("live_from"),
    column("superseded_at"),
    column("records", BigInteger),
    column("column_stats", JSONB),
)


Bool = ColumnElement[bool]
Element = ColumnElement[Any]


class _FileOfWindow:
    """A file where no table is named: each column is that of the query around it."""

    partition_path: Final = column("partition_path", Text)
    records: Final = column("records", BigInteger)
    column_stats: Final = column("column_stats", JSONB)


_WINDOW: Final[Element] = literal_column("file_group")
_DIALECT: Final = PGDialect_psycopg()  # type: ignore[no-untyped-call]
_TYPES: Final[dict[LiteralKind, TypeEngine[Any]]] = {
    LiteralKind.BOOLEAN: Boolean(),
    LiteralKind.INTEGER: Numeric(),
    LiteralKind.FLOAT: Double(),
    LiteralKind.DECIMAL: Numeric(),
    LiteralKind.STRING: Text(),
    LiteralKind.DATE: Date(),
    LiteralKind.TIMESTAMP: DateTime(timezone=True),
    LiteralKind.TIMESTAMP_NTZ: DateTime(timezone=False),
}


async def groups(
    connection: Connection,
    table_id: UUID,
    as_of: Micros,
    sets: Sequence[PartitionSet],
    after: GroupKey,
    limit: int,
    *,
    at_once: int = 1_000,
) -> list[GroupKey]:
    """The first ``limit`` file groups after ``after`` whose slices, as of a completion time, could match.

    Reads a page of groups, then four times as many, and so on until it has enough: so the cost of a page is in
    proportion to the groups that must be read, whether all groups match or only a few. It begins with at least
    ``at_once`` groups: a statement costs as much as reading them.
    """
    paths = partition_paths(sets)
    matching: list[GroupKey] = []
    number = max(limit, at_once)
    queries: dict[bool, _Query] = {}
    while True:
        last = await files.nth_group(connection, table_id, as_of, paths, after, number)
        is_cut = last is not None
        if is_cut not in queries:
            # In a thread: the largest filters take a second, in which no other request would be answered.
            queries[is_cut] = await asyncio.to_thread(_groups_query, table_id, as_of, sets, is_cut=is_cut)
        page = dict(zip(_PAGE, (*after, *(last or ("", "")), limit - len(matching)), strict=True))
        query = queries[is_cut]
        rows = await connection.execute(query.text, {**query.parameters, **page})
        matching += [(partition_path, file_id) for partition_path, file_id in rows]
        if last is None or len(matching) == limit:
            return matching
        after, number = last, 4 * number


_PAGE: Final = ("after_partition", "after_file_id", "last_partition", "last_file_id", "groups_max")
"""The parameters of a page. The last group is that of a page which others follow."""


class _Query(NamedTuple):
    """A statement as a text, with the parameters that are the same in all pages."""

    text: str
    parameters: Mapping[str, object]


def _groups_query(table_id: UUID, as_of: Micros, sets: Sequence[PartitionSet], *, is_cut: bool) -> _Query:
    query = _groups(table_id, as_of, sets, is_cut=is_cut).limit(bindparam("groups_max", type_=BigInteger))
    written = query.compile(dialect=_DIALECT)
    same = {name: value for name, value in written.params.items() if name not in _PAGE}
    return _Query(written.string, same)


def _groups(table_id: UUID, as_of: Micros, sets: Sequence[PartitionSet], *, is_cut: bool) -> Select[str, str]:
    """The file groups of a page that could match: those after ``after``, if it ``is_cut`` up to ``last``."""
    moment = func.moment(literal(as_of, BigInteger))
    group = tuple_(_FILE.c.partition_path, _FILE.c.file_id)
    after, last = (
        tuple_(bindparam(f"{end}_partition", type_=Text), bindparam(f"{end}_file_id", type_=Text))
        for end in ("after", "last")
    )
    of_table = [_FILE.c.table_id == table_id, _FILE.c.live_from <= moment, group > after]
    if is_cut:
        of_table.append(group <= last)
    paths = partition_paths(sets)
    if paths is not None:
        of_table.append(_one_of(_FILE.c.partition_path, paths))
    # In two parts, as in files/snapshot.sql: what is live still has an index of its own.
    columns = _FILE.c.partition_path, _FILE.c.file_id, _FILE.c.records, _FILE.c.column_stats
    live = union_all(
        select(*columns).where(*of_table, _FILE.c.superseded_at.is_(None)),
        select(*columns).where(*of_table, _FILE.c.superseded_at > moment),
    ).subquery("live")
    key = live.c.partition_path, live.c.file_id
    wanted = select(*key).group_by(*key).order_by(*key)
    if all(part.residual is None for part in sets):
        return wanted
    return wanted.having(
        _some_could_hold(sets, live.c.partition_path, lambda test: func.bool_or(_passes(test, live.c)))
    )


def partition_paths(sets: Sequence[PartitionSet]) -> list[str] | None:
    """The partitions of all sets together; None for all of the table."""
    if any(part.partition_paths is None for part in sets):
        return None
    return [path for part in sets for path in part.partition_paths or ()]


def could_match(sets: Sequence[PartitionSet]) -> sql.SQL:
    """The same as a text: whether the slice of a file could match, by a window ``file_group`` of its files.

    For large answers, which are copied out: no parameters go with them.
    """
    if all(part.residual is None for part in sets):
        return sql.SQL("true")
    condition = _some_could_hold(
        sets,
        _FileOfWindow.partition_path,
        lambda test: func.bool_or(_passes(test, _FileOfWindow)).bool_op("OVER")(_WINDOW),
    )
    written = condition.compile(dialect=_DIALECT)
    literals = {name: sql.Literal(value).as_string() for name, value in written.params.items()}
    return sql.SQL(written.string % literals)


def _some_could_hold(
    sets: Sequence[PartitionSet], partition_path: Element, any_passes: Callable[[Test], Bool]
) -> Bool:
    """Whether a slice could match, by the residual of its partition."""
    if len(sets) == 1:
        return _set_could_hold(sets[0], any_passes)
    return or_(
        *(
            and_(_one_of(partition_path, part.partition_paths or ()), _set_could_hold(part, any_passes))
            for part in sets
        )
    )


def _set_could_hold(part: PartitionSet, any_passes: Callable[[Test], Bool]) -> Bool:
    return true() if part.residual is None else _could_hold(part.residual, any_passes)


def _could_hold(condition: Condition, any_passes: Callable[[Test], Bool]) -> Bool:
    """Whether a slice could match: a test is passed if any of its files passes it."""
    match condition:
        case Test():
            return any_passes(condition)
        case AllOf():
            return and_(*(_could_hold(part, any_passes) for part in condition.parts))
        case AnyOf():
            return or_(*(_could_hold(part, any_passes) for part in condition.parts))


def _one_of(partition_path: Element, paths: Sequence[str]) -> Bool:
    return partition_path == any_(cast(list(paths), ARRAY(Text)))


def _passes(test: Test, file: Any) -> Bool:
    stats = file.column_stats[str(test.column.field_id)]
    least, greatest, nulls = (stats[place].astext for place in range(3))
    nulls = cast(nulls, BigInteger)
    if test.relation is Relation.NULL:
        return _unless_known(nulls > 0)
    some_value = _unless_known(nulls < file.records)
    if test.relation is Relation.NOT_NULL:
        return some_value
    kind = test.column.kind
    least, greatest = _of_kind(kind, least), _of_kind(kind, greatest)
    return and_(some_value, _RULES[test.relation](kind, least, greatest, test.values))


def _unless_known(known: Bool) -> Bool:
    """``known``, and true where it is not."""
    return func.coalesce(known, true())


def _of_kind(kind: LiteralKind, written: Element) -> Element:
    """A text as a value that compares as those of the column do."""
    return _collated(kind, cast(written, _TYPES[kind]))


def _collated(kind: LiteralKind, typed: Element) -> Element:
    return collate(typed, "C") if kind is LiteralKind.STRING else typed


def _parameter(kind: LiteralKind, value: Value) -> Element:
    return _of_kind(kind, literal(_text(value), Text))


def _text(value: Value) -> str:
    match value:
        case Decimal():
            return format(value, "f")
        case bool() | int() | float() | str():
            return str(value)
        case _:
            return value.isoformat()


def _among(kind: LiteralKind, least: Element, greatest: Element, values: Sequence[Value]) -> Bool:
    """One parameter however many values there are: a statement has no room for hundreds of thousands."""
    texts = cast([_text(value) for value in values], ARRAY(Text))
    value = _collated(kind, func.unnest(cast(texts, ARRAY(_TYPES[kind]))).column_valued("one"))
    return select(literal(1)).where(_unless_known(least <= value), _unless_known(greatest >= value)).exists()


def _not_among(kind: LiteralKind, least: Element, greatest: Element, values: Sequence[Value]) -> Bool:
    return _unless_known(not_(and_(least == greatest, _among(kind, least, greatest, values))))


def _prefixed(kind: LiteralKind, least: Element, greatest: Element, values: Sequence[Value]) -> Bool:
    prefix = _parameter(kind, values[0])
    begins = collate(func.left(least, func.length(prefix)), "C")
    return and_(_unless_known(begins <= prefix), _unless_known(greatest >= prefix))


def _not_prefixed(kind: LiteralKind, least: Element, greatest: Element, values: Sequence[Value]) -> Bool:
    prefix = _parameter(kind, values[0])
    return _unless_known(not_(and_(func.starts_with(least, prefix), func.starts_with(greatest, prefix))))


_RULES: Final[dict[Relation, Callable[[LiteralKind, Element, Element, Sequence[Value]], Bool]]] = {
    Relation.AMONG: _among,
    Relation.NOT_AMONG: _not_among,
    Relation.LESS: lambda kind, least, _, values: _unless_known(least < _parameter(kind, values[0])),
    Relation.LESS_OR_EQUAL: lambda kind, least, _, values: _unless_known(least <= _parameter(kind, values[0])),
    Relation.GREATER: lambda kind, _, greatest, values: _unless_known(greatest > _parameter(kind, values[0])),
    Relation.GREATER_OR_EQUAL: lambda kind, _, greatest, values: _unless_known(
        greatest >= _parameter(kind, values[0])
    ),
    Relation.PREFIXED: _prefixed,
    Relation.NOT_PREFIXED: _not_prefixed,
}
