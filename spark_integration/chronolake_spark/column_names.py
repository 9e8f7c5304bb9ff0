"""Names of columns as advice and statements spell them, so that they can be pasted. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_model.tables import Table
from chronolake_spark import columns, errors


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


def _mismatch(table: Table, missing: Sequence[str], unknown: Sequence[str]) -> str:
    parts = []
    if missing:
        parts.append(f"lacks the columns {', '.join(missing)} ({_how_to_add(table, missing)})")
    if unknown:
        parts.append(
            f"has columns that the table does not: {', '.join(unknown)} (drop them, or write with "
            "merge_schema=True to add them to the table)"
        )
    return f"the frame does not fit {table.name}: it {' and '.join(parts)}"


def _how_to_add(table: Table, missing: Sequence[str]) -> str:
    nullable = next((field.name for field in table.schema if field.nullable and field.name in missing), None)
    example = "" if nullable is None else f", for example as null: .withColumn({nullable!r}, lit(None))"
    return f"add them{example}"
