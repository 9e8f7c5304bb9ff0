"""Names of columns as advice and statements spell them, so that they can be pasted."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from chronolake.slices import columns, errors
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


def refuse_reserved(what: str, names: Sequence[str], *, are_of_files: bool = False) -> None:
    """Raise ``SchemaMismatch`` if columns of ``what``, a frame or files, have the names of meta columns."""
    reserved = [name for name in names if columns.is_reserved(name)]
    if not reserved:
        return
    advice = f"Drop them, as with df.drop({', '.join(map(repr, reserved))}), or rename them"
    if are_of_files:
        advice = "Leave them out of the files, or rename them"
    raise errors.SchemaMismatch(
        f"{what} has the columns {', '.join(reserved)}, and a table cannot have them: Hudi or Chronolake makes "
        f"columns with such names ({', '.join(columns.RESERVED_PREFIXES)}, {columns.CHANGE_TYPE}) anew in each "
        f"write or read. {advice} to keep their values",
        {"columns": reserved},
    )


def refuse_others(table: Table, missing: Sequence[str], unknown: Sequence[str]) -> None:
    """Raise ``SchemaMismatch`` if a frame lacks columns of the table, or has others."""
    refuse_reserved(f"the frame for {table.name}", unknown)
    if missing or unknown:
        raise errors.SchemaMismatch(
            _mismatch(table, missing, unknown), {"missing": list(missing), "unknown": list(unknown)}
        )


def needed_for_delete(table: Table) -> list[str]:
    """The columns by which a row finds the record to delete. With a record index the key alone does."""
    is_global = table.index.type is IndexType.RECORD
    return [*table.record_key_fields, *([] if is_global else table.partition_fields)]


def refuse_missing_of_delete(table: Table, missing: Sequence[str], names: Iterable[str]) -> None:
    """Raise ``SchemaMismatch`` if a frame, with these ``names``, lacks columns by which rows delete records."""
    if not missing:
        return
    own = {field.name.lower() for field in table.schema}
    renames = _renames(missing, [name for name in names if name.lower() not in own])
    hints = "".join(f"; {_how_to_rename(*pair)}" for pair in renames.items())
    raise errors.SchemaMismatch(
        f"the frame does not fit {table.name}: it lacks the columns {', '.join(missing)}{hints}. "
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
            f"the frame does not fit {table.name}: of the ordering fields {', '.join(table.merge_fields)} it "
            f"lacks {', '.join(missing)}. Give all of them, or none to delete the stored records in any case",
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


def _mismatch(table: Table, missing: Sequence[str], unknown: Sequence[str]) -> str:
    parts = []
    renames = _renames(missing, unknown)
    if missing:
        parts.append(f"lacks the columns {', '.join(missing)} ({_how_to_complete(table, missing, renames)})")
    if unknown:
        advice = "drop them, or write with merge_schema=True to add them to the table"
        is_advised = set(unknown) > set(renames.values())
        parts.append(
            f"has columns that the table does not: {', '.join(unknown)}{f' ({advice})' if is_advised else ''}"
        )
    return f"the frame does not fit {table.name}: it {' and '.join(parts)}"


def _renames(missing: Sequence[str], unknown: Sequence[str]) -> dict[str, str]:
    """For each missing column that may be misspelled in the frame, its name there."""
    folded = {name.lower(): name for name in unknown}
    nearest = {
        name: difflib.get_close_matches(name.lower(), folded, n=1, cutoff=_SIMILARITY) for name in missing
    }
    return {name: folded[matches[0]] for name, matches in nearest.items() if matches}


def _how_to_rename(name: str, given: str) -> str:
    return f"did you mean {given}? Rename it: .withColumnRenamed({given!r}, {name!r})"


def _how_to_complete(table: Table, missing: Sequence[str], renames: Mapping[str, str]) -> str:
    advice = [_how_to_rename(*pair) for pair in renames.items()]
    if others := [name for name in missing if name not in renames]:
        advice.append(_how_to_add(table, others))
    return "; ".join(advice)


def _how_to_add(table: Table, missing: Sequence[str]) -> str:
    places = {*table.record_key_fields, *table.partition_fields}
    if needed := [name for name in missing if name in places]:
        return f"add them, {', '.join(needed)} with the values of each row, which decide where it is stored"
    nullable = next((field.name for field in table.schema if field.nullable and field.name in missing), None)
    example = "" if nullable is None else f", for example as null: .withColumn({nullable!r}, lit(None))"
    return f"add them{example}"
