"""A condition shared out over partitions: what is left of it to be asked of the files of each.

A partition path answers the tests of partition columns. With those answers put in, ``day = 1 or x > 5`` asks
nothing more of the files of day 1, and ``x > 5`` of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from chronolake_metastore.domain import partition_values, pruning
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.literals import Value
from chronolake_metastore.domain.pruning import Condition, Every, Some, Test
from chronolake_metastore.domain.tables import Table
from chronolake_model.filters import PARTS_MAX


class Share(msgspec.Struct, frozen=True):
    """Partitions, all of the table unless given, and what is asked of their files, if anything is."""

    partition_paths: tuple[str, ...] | None = None
    condition: Condition | None = None


def asks_of_partitions(condition: Condition) -> bool:
    """Whether partition paths can say anything about the condition."""
    match condition:
        case Test():
            return condition.column.partition is not None
        case Every() | Some():
            return any(map(asks_of_partitions, condition.parts))


def remaining(condition: Condition, table: Table, partition_path: str) -> Condition | bool:
    """What is left of the condition for a record of the partition; True or False when that is decided."""
    folders = partition_path.split("/")
    fields = len(table.definition.partition_fields)
    return _remaining(condition, partial(_could_pass, folders=folders, fields=fields))


def share_out(condition: Condition, table: Table, partition_paths: Iterable[str]) -> list[Share]:
    """The partitions that could have a record that meets the condition, those together that ask the same.

    Together they ask of no more parts than a filter may have. Where that is too few, partitions and files are
    judged apart, each as if the other left room.
    """
    shares: dict[Condition | bool, list[str]] = {}
    for path in partition_paths:
        left = remaining(condition, table, path)
        if left is not False:
            shares.setdefault(left, []).append(path)
    if sum(map(_parts, shares)) > PARTS_MAX:
        kept = [path for paths in shares.values() for path in paths]
        shares = {_remaining(condition, lambda test: True): sorted(kept)}
    return [Share(tuple(paths), None if isinstance(left, bool) else left) for left, paths in shares.items()]


def _remaining(condition: Condition, could_pass: Callable[[Test], bool]) -> Condition | bool:
    match condition:
        case Test():
            return condition if condition.column.partition is None else could_pass(condition)
        case Every() | Some():
            decisive = isinstance(condition, Some)
            left = [_remaining(part, could_pass) for part in condition.parts]
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
        case Every() | Some():
            return sum(map(_parts, condition.parts))


def _could_pass(test: Test, *, folders: Sequence[str], fields: int) -> bool:
    place = test.column.partition
    if place is None or len(folders) != fields:
        return True
    values = partition_values.candidates(folders[place], test.column.name, test.column.kind)
    return values is None or any(pruning.passes(test, _only(value), records=1) for value in values)


def _only(value: Value | None) -> Range:
    return Range(nulls=1) if value is None else Range(value, value, nulls=0)
