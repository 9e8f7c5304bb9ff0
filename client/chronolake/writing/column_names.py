"""Names of columns as advice and statements spell them, so that they can be pasted."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chronolake.slices import columns, errors
from chronolake_model import merge_modes
from chronolake_model.merge_modes import MergeMode
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType

_SIMILARITY: Final = 0.7
"""The least ratio of difflib at which a name counts as a misspelled one."""


def quoted(name: str) -> str:
    """A column's name, quoted for Spark SQL and ``functions.col``."""
    return "`" + name.replace("`", "``") + "`"


def plain(name: str) -> str:
    """A column's name as SQL and DDL take it: quoted where it must be."""
    return name if name.isidentifier() and name.isascii() else quoted(name)


def argument(text: str) -> str:
    """A text as one argument in a shell, in quotes."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


@dataclass(frozen=True, slots=True)
class Advice:
    """How a caller changes the columns of its rows. The texts have the places of names."""

    rename: str
    add: str
    drop_reserved: str
    drop: str


SPARK: Final = Advice(
    rename="Rename it: .withColumnRenamed({given!r}, {name!r})",
    add=", for example as null: .withColumn({name!r}, lit(None))",
    drop_reserved="Drop them, as with df.drop({names}), or rename them",
    drop="drop them, or write with merge_schema=True to add them to the table",
)
ARROW: Final = Advice(
    rename="Rename it to {name!r}",
    add=", for example {name} as null",
    drop_reserved="Drop {names}, or rename them",
    drop="drop them, or add them to the table by change_schema([AddColumn(…)])",
)


def refuse_reserved(
    what: str, names: Sequence[str], *, are_of_files: bool = False, advice_of: Advice = SPARK
) -> None:
    """Raise ``SchemaMismatch`` if columns of ``what``, data or files, have the names of meta columns."""
    reserved = [name for name in names if columns.is_reserved(name)]
    if not reserved:
        return
    advice = advice_of.drop_reserved.format(names=", ".join(map(repr, reserved)))
    if are_of_files:
        advice = "Leave them out of the files, or rename them"
    raise errors.SchemaMismatch(
        f"{what} has the columns {', '.join(reserved)}, and a table cannot have them: Hudi or Chronolake makes "
        f"columns with such names ({', '.join(columns.RESERVED_PREFIXES)}, {columns.CHANGE_TYPE}) anew in each "
        f"write or read. {advice} to keep their values",
        {"columns": reserved},
    )


def sources_of(names: Sequence[str], wanted: Sequence[str], *, case_sensitive: bool) -> dict[str, str]:
    """For each wanted column that is there, the name that the rows have for it."""
    exact = {name: name for name in names}
    if case_sensitive:
        return {name: name for name in wanted if name in exact}
    folded = {name.lower(): name for name in names}
    names_in_rows = {name: exact.get(name) or folded.get(name.lower()) for name in wanted}
    return {name: source for name, source in names_in_rows.items() if source is not None}


def lacking(table: Table, sources: Collection[str]) -> list[str]:
    """The columns that the rows of an upsert lack and whose stored values stay; none in other merge modes."""
    if merge_modes.mode_of(table.ordering_field, table.properties) is not MergeMode.PARTIAL_UPDATE:
        return []
    needed = {*table.record_key_fields, *table.partition_fields, *sources}
    return [field.name for field in table.schema if field.name not in needed]


def refuse_others(
    table: Table, missing: Sequence[str], unknown: Sequence[str], advice_of: Advice = SPARK
) -> None:
    """Raise ``SchemaMismatch`` if rows lack columns of the table, or have others."""
    refuse_reserved(f"the data for {table.name}", unknown, advice_of=advice_of)
    if missing or unknown:
        raise errors.SchemaMismatch(
            _mismatch(table, missing, unknown, advice_of), {"missing": list(missing), "unknown": list(unknown)}
        )


def needed_for_delete(table: Table) -> list[str]:
    """The columns by which a row finds the record to delete. With a record index the key alone does."""
    is_global = table.index.type is IndexType.RECORD
    return [*table.record_key_fields, *([] if is_global else table.partition_fields)]


def refuse_missing_of_delete(
    table: Table, missing: Sequence[str], names: Iterable[str], advice_of: Advice = SPARK
) -> None:
    """Raise ``SchemaMismatch`` if rows, with these ``names``, lack columns by which they delete records."""
    if not missing:
        return
    own = {field.name.lower() for field in table.schema}
    renames = _renames(missing, [name for name in names if name.lower() not in own])
    hints = "".join(f"; {_how_to_rename(*pair, advice_of)}" for pair in renames.items())
    raise errors.SchemaMismatch(
        f"the rows do not fit {table.name}: they lack the columns {', '.join(missing)}{hints}. "
        f"{_needs_of_delete(table)}",
        {"missing": list(missing), "unknown": []},
    )


def refuse_some_of_ordering(table: Table, given: Collection[str]) -> None:
    """Raise ``SchemaMismatch`` if rows that delete have some of several ordering fields, and not all.

    They would be earlier than the records with the same values in these.
    """
    missing = [name for name in table.merge_fields if name not in given]
    if 0 < len(missing) < len(table.merge_fields):
        raise errors.SchemaMismatch(
            f"the rows do not fit {table.name}: of the ordering fields {', '.join(table.merge_fields)} they "
            f"lack {', '.join(missing)}. Give all of them, or none to delete the stored records in any case",
            {"missing": missing, "unknown": []},
        )


def _needs_of_delete(table: Table) -> str:
    needed = needed_for_delete(table)
    partition = " and the partition columns" if len(needed) > len(table.record_key_fields) else ""
    needs = (
        f"A delete needs the record key{partition}, with the values of the stored records: {', '.join(needed)}"
    )
    if not table.ordering_fields:
        return needs
    ordering = f"ordering field {', '.join(table.ordering_fields)}"
    return f"{needs}. With the {ordering}, stored records with a larger value stay"


def _mismatch(table: Table, missing: Sequence[str], unknown: Sequence[str], advice_of: Advice) -> str:
    parts = []
    renames = _renames(missing, unknown)
    if missing:
        completion = _how_to_complete(table, missing, renames, advice_of)
        parts.append(f"lack the columns {', '.join(missing)} ({completion})")
    if unknown:
        advice = f" ({advice_of.drop})" if set(unknown) > set(renames.values()) else ""
        parts.append(f"have columns that the table does not: {', '.join(unknown)}{advice}")
    return f"the rows do not fit {table.name}: they {' and '.join(parts)}"


def _renames(missing: Sequence[str], unknown: Sequence[str]) -> dict[str, str]:
    """For each missing column that may be misspelled in the rows, its name there."""
    folded = {name.lower(): name for name in unknown}
    nearest = {
        name: difflib.get_close_matches(name.lower(), folded, n=1, cutoff=_SIMILARITY) for name in missing
    }
    return {name: folded[matches[0]] for name, matches in nearest.items() if matches}


def _how_to_rename(name: str, given: str, advice_of: Advice) -> str:
    return f"did you mean {given}? {advice_of.rename.format(name=name, given=given)}"


def _how_to_complete(
    table: Table, missing: Sequence[str], renames: Mapping[str, str], advice_of: Advice
) -> str:
    advice = [_how_to_rename(*pair, advice_of) for pair in renames.items()]
    if others := [name for name in missing if name not in renames]:
        advice.append(_how_to_add(table, others, advice_of))
    return "; ".join(advice)


def _how_to_add(table: Table, missing: Sequence[str], advice_of: Advice) -> str:
    places = {*table.record_key_fields, *table.partition_fields}
    if needed := [name for name in missing if name in places]:
        return f"add them, {', '.join(needed)} with the values of each row, which decide where it is stored"
    nullable = next((field.name for field in table.schema if field.nullable and field.name in missing), None)
    return f"add them{'' if nullable is None else advice_of.add.format(name=nullable)}"
