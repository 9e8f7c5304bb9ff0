"""Tables that Hudi's readers cannot read, by their definitions.

Hudi reads some of them wrongly without an error, so the server does not publish them (docs/concepts/hudi.md).
Clients say so before they create such a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from chronolake_hudi import avro_schema
from chronolake_model import column_types, merge_modes, nested_fields
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.column_types import DataType
from chronolake_model.partition_paths import BY_GENERATOR, KEPT_PROPERTY, are_kept
from chronolake_model.publication import LOG_BLOCKS_PROPERTY, PUBLISH_PROPERTY
from chronolake_model.schemas import AddColumn, RenameColumn, SchemaChange, SetNullable
from chronolake_model.tables import Field, Table
from chronolake_model.times import Tick
from chronolake_model.vocabulary import TableType

TICK_OBSTACLE: Final = (
    "its tick is 1us, and Hudi's readers see no instants of 20 digits; to publish its records, create a table "
    "with tick 1ms, and write them into it"
)
_NO_AVRO: Final = "Avro, which is Hudi's form of a schema, cannot state it"


class Publishable(Protocol):
    """A definition of a table, or the request to create one: it decides whether Hudi can read the table."""

    @property
    def schema(self) -> Sequence[Field]:
        """The present columns."""

    @property
    def type(self) -> TableType:
        """Whether updates are log files."""

    @property
    def partition_fields(self) -> Sequence[str]:
        """The columns in the partition path."""

    @property
    def ordering_field(self) -> str | None:
        """The column that decides which of two records is later."""

    @property
    def tick(self) -> Tick:
        """The step of the clock."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties."""


def obstacle(table: Publishable) -> str | None:
    """Why Hudi's readers cannot read a table of this definition, and what to do; None if they can."""
    if table.tick is Tick.MICROSECOND:
        return TICK_OBSTACLE
    problems = avro_schema.problems(table.schema)
    if problems:
        return f"{_NO_AVRO}: {problems[0][:500]}"
    if table.properties.get(KEPT_PROPERTY) == BY_GENERATOR and table.properties.get(PUBLISH_PROPERTY) != "true":
        return (
            "its partition paths are made by a key generator of Hudi, which the guard against Hudi's writers "
            "replaces: Hudi's Spark reader would take the values of partition columns from the paths. Leave "
            f"{PUBLISH_PROPERTY} false; with true it is published nevertheless"
        )
    if are_kept(table.properties):
        return None
    types = {field.name: field.type.strip().lower() for field in table.schema}
    for name in table.partition_fields:
        if types[name] == "timestamp_ntz":
            return (
                f"it is partitioned by the timestamp_ntz {name!r}, and Hudi's readers fail on such tables; "
                "partition by a timestamp, a date or a string"
            )
    return None


def log_obstacle(table: Publishable) -> str | None:
    """Why Hudi's readers cannot read log files of a table of this definition; None if they can.

    A merge-on-read table without log files is read rightly: only the merge compares ordering values.
    """
    if table.type is not TableType.MERGE_ON_READ:
        return None
    merge_fields = merge_modes.merge_fields(table.ordering_field, table.properties)
    fields = (field for field in table.schema if field.name in merge_fields)
    return next((reason for field in fields if (reason := _log_obstacle(table, field)) is not None), None)


def _log_obstacle(table: Publishable, field: Field) -> str | None:
    """Why Hudi's readers cannot read log files of a table with this ordering field."""
    if field.type.strip().lower() == "string" and table.properties.get(LOG_BLOCKS_PROPERTY) != "avro":
        return (
            f"its ordering field {field.name!r} is a string: Hudi's readers lose updates that are in Parquet "
            "blocks of log files; use a number, a date or a timestamp, or write Avro blocks and set "
            f"{LOG_BLOCKS_PROPERTY} to avro"
        )
    # Hudi has read its own table with such a column before.
    if field.nullable and ADOPTED_PROPERTY not in table.properties:
        return (
            f"its ordering field {field.name!r} is nullable: Hudi's readers fail at a null in log files, or "
            "take it for 0; create the table with the column as not nullable, or set hudi.publish to false"
        )
    return None


def unseen(table: Publishable) -> str | None:
    """Why Hudi's readers will not see a table of this definition, or will not once it has log files.

    None if they will, or if a property turns publication off: that is a decision of the table's owner.
    """
    if table.properties.get(PUBLISH_PROPERTY) == "false":
        return None
    if (reason := obstacle(table)) is not None:
        return reason
    reason = log_obstacle(table)
    return None if reason is None else f"as soon as it has log files, {reason}"


def unseen_after(
    table: Table, changes: Iterable[SchemaChange], former: Iterable[Sequence[Field]]
) -> str | None:
    """Why Hudi's readers will not see a table after changes of its schema, beside the reasons of ``unseen``.

    ``former`` are the columns of the versions of the schema until now. The server refuses wrong changes; they
    are ignored here. Raises ``ValueError`` for a path or a type that is none.
    """
    if table.properties.get(PUBLISH_PROPERTY) == "false" or table.tick is Tick.MICROSECOND:
        return None
    taken = {path for fields in former for path in _paths_of(fields)}
    reasons = (_reason_of(table, change, taken) for change in changes)
    return next((reason for reason in reasons if reason is not None), None)


def _reason_of(table: Table, change: SchemaChange, taken: set[tuple[str, ...]]) -> str | None:
    match change:
        case RenameColumn():
            return _reason_of_name(change.new_name, "int") or (
                f"the column {change.name!r} is renamed, and they would show wrong values: they see the table "
                "as it is now until the files with the former name are rewritten (an upsert of their "
                "records, or an overwrite)"
            )
        case AddColumn():
            names = nested_fields.split(change.name)
            if (reason := _reason_of_name(names[-1], change.type)) is not None:
                return reason
            if tuple(map(str.lower, names)) in taken:
                return (
                    f"there was a column {change.name!r} before, whose values they would show: they see the "
                    "table as it is now until the files with the former column are rewritten (an upsert of "
                    "their records, or an overwrite)"
                )
        case SetNullable():
            fields = [
                msgspec.structs.replace(field, nullable=True) if field.name == change.name else field
                for field in table.schema
            ]
            return unseen(msgspec.structs.replace(table, schema=fields))
        case _:
            pass
    return None


def _reason_of_name(name: str, type_: str) -> str | None:
    problems = avro_schema.problems([Field(name, type_)])
    return f"{_NO_AVRO}: {problems[0][:500]}" if problems else None


def _paths_of(fields: Iterable[Field]) -> Iterator[tuple[str, ...]]:
    """The names that lead to each column and nested field, in lower case."""
    for field in fields:
        yield from _paths((field.name.lower(),), column_types.parse(field.type))


def _paths(path: tuple[str, ...], data_type: DataType) -> Iterator[tuple[str, ...]]:
    yield path
    for part in nested_fields.parts(data_type):
        yield from _paths((*path, part.name.lower()), part.type)
