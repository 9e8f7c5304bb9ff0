"""Partition pruning: the partitions that could match a condition, and its residual for their files.

A partition path answers the tests of partition columns. What is left of the condition is its residual, as in
Iceberg. The residual of ``day = 1 or x > 5`` is true in the partition of day 1, and ``x > 5`` in all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from chronolake_metastore.domain import partition_values, pruning
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.literals import Value
from chronolake_metastore.domain.pruning import AllOf, AnyOf, Condition, Test
from chronolake_metastore.domain.tables import Table
from chronolake_model.filters import PARTS_MAX
from chronolake_model.partition_paths import Spelling


class PartitionSet(msgspec.Struct, frozen=True):
    """Partitions with one residual. ``partition_paths`` is None for all partitions of the table.

    ``residual`` is None if every file of the partitions could match.
    """

    partition_paths: tuple[str, ...] | None = None
    residual: Condition | None = None


def tests_partitions(condition: Condition) -> bool:
    """Whether the condition has a test of a partition column."""
    match condition:
        case Test():
            return condition.column.partition is not None
        case AllOf() | AnyOf():
            return any(map(tests_partitions, condition.parts))


def residual(condition: Condition, table: Table, partition_path: str) -> Condition | bool:
    """The condition that remains for the records of a partition; True or False if its path decides."""
    folders = partition_path.split("/")
    fields = len(table.definition.partition_fields)
    spelling = Spelling.of(table.definition.properties)
    return _residual(condition, partial(_could_pass, folders=folders, fields=fields, spelling=spelling))


def prune(condition: Condition, table: Table, partition_paths: Iterable[str]) -> list[PartitionSet]:
    """The partitions that could have a matching record, one set for each residual.

    All residuals together have at most ``PARTS_MAX`` parts. Beyond that there is one set: partitions are pruned
    by their paths alone, and files by the tests of other columns alone. That keeps more, and never too little.
    """
    sets: dict[Condition | bool, list[str]] = {}
    for path in partition_paths:
        residual_of_path = residual(condition, table, path)
        if residual_of_path is not False:
            sets.setdefault(residual_of_path, []).append(path)
    if sum(map(_parts, sets)) > PARTS_MAX:
        kept = [path for paths in sets.values() for path in paths]
        sets = {_residual(condition, lambda test: True): sorted(kept)}
    return [
        PartitionSet(tuple(paths), None if isinstance(left, bool) else left) for left, paths in sets.items()
    ]


def _residual(condition: Condition, could_pass: Callable[[Test], bool]) -> Condition | bool:
    match condition:
        case Test():
            return condition if condition.column.partition is None else could_pass(condition)
        case AllOf() | AnyOf():
            decisive = isinstance(condition, AnyOf)
            left = [_residual(part, could_pass) for part in condition.parts]
            if any(part is decisive for part in left):
                return decisive
            parts = tuple(part for part in left if not isinstance(part, bool))
            if not parts:
                return not decisive
            return parts[0] if len(parts) == 1 else type(condition)(parts)


def _parts(condition: Condition | bool) -> int:
    match condition:
        case bool():
            return 0
        case Test():
            return max(1, len(condition.values))
        case AllOf() | AnyOf():
            return sum(map(_parts, condition.parts))


def _could_pass(test: Test, *, folders: Sequence[str], fields: int, spelling: Spelling) -> bool:
    place = test.column.partition
    if place is None or len(folders) != fields:
        return True
    values = partition_values.candidates(folders[place], test.column.name, test.column.kind, spelling)
    return values is None or any(pruning.passes(test, _only(value), records=1) for value in values)


def _only(value: Value | None) -> Range:
    return Range(nulls=1) if value is None else Range(value, value, nulls=0)
