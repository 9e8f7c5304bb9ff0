"""``chronolake head`` and ``chronolake query``: rows of tables, read by this process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

import chronolake
from chronolake import errors
from chronolake.cli import context, files, filters, options, output, row_output
from chronolake_model.names import split_table_name

if TYPE_CHECKING:
    import duckdb

HEAD_ROWS: Final = 10
_FIRST_ROWS_MAX: Final = 100_000
"""Rows that are read in one batch: more would only delay the first one."""
_AT: Final = re.compile(
    r"""
      '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$\$.*?\$\$
    | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)?)@(?P<time>\d[\dTZ:.+-]*\b|earliest\b|latest\b)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Parts of SQL that are left as they are, and the name of a table with a time."""


def head(
    table: options.TableArgument,
    as_of: files.AsOfOption = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="FILTER",
            help="Only rows like this: \"amount >= 10 and region in ('eu', 'us')\".",
        ),
    ] = None,
    columns: row_output.ColumnsOption = None,
    form: row_output.OutputOption = row_output.Form.TABLE,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The number of rows.")] = HEAD_ROWS,
) -> None:
    """Show the first rows of a table, now or as of a time. Needs the extra arrow, and no Java."""
    with context.client() as client:
        lake_table = client.table(table)
        wanted = None if where is None else filters.parsed(where, lake_table)
        try:
            rows = lake_table.to_batches(
                as_of,
                where=wanted,
                columns=row_output.names_of(columns),
                batch_rows=min(limit, _FIRST_ROWS_MAX) if wanted is None else None,
            )
        except ImportError as exc:
            context.fail(str(exc))
        row_output.write(rows, row_output.form_of(form), limit)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in DuckDB's SQL.", show_default=False)],
    form: row_output.OutputOption = row_output.Form.TABLE,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most this number of rows.")
    ] = None,
) -> None:
    """Run a query over tables, by DuckDB in this process. Needs the extra duckdb, and no Java.

    A table is named as NAMESPACE.TABLE, or TABLE if no other namespace has one of this name. With a time, as
    shop.orders@2026-01-31T12:00:00Z, it is read as of this time; orders@earliest and an instant's digits are
    possible too.
    """
    try:
        import duckdb  # noqa: PLC0415  # an extra
    except ImportError:
        context.fail("this needs duckdb: pip install 'chronolake[duckdb]'")
    text = with_times_quoted(sql)
    with context.client() as client, duckdb.connect() as connection:
        try:
            register(client, connection, tables_of(connection, text))
            found = connection.sql(text)
            if found is None:
                context.fail("the text is not a query: it has no rows", exit_code=output.USAGE)
            row_output.write(found.to_arrow_reader(), row_output.form_of(form), limit)
        except duckdb.Error as exc:
            context.fail(str(exc))


def with_times_quoted(sql: str) -> str:
    """The query with ``shop.orders@2026`` as ``shop."orders@2026"``, which is a name in SQL."""

    def quoted(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        *namespace, name = match["name"].split(".")
        return ".".join([*namespace, f'"{name}@{match["time"]}"'])

    return _AT.sub(quoted, sql)


def tables_of(connection: duckdb.DuckDBPyConnection, sql: str) -> set[tuple[str, ...]]:
    """The parts of the names of tables, and of common table expressions, in a query; none in another text."""
    serialized = connection.execute("select json_serialize_sql(?)", [sql]).fetchone()
    assert serialized is not None
    return set(_names_in(json.loads(serialized[0])))


def register(
    client: chronolake.Client, connection: duckdb.DuckDBPyConnection, names: Iterable[tuple[str, ...]]
) -> None:
    """Make the tables that a query names known to DuckDB; it finds others itself, or refuses them."""
    for number, parts in enumerate(sorted(names)):
        name, _, time = parts[-1].partition("@")
        table = _found(client, [*parts[:-1], name])
        if table is None:
            continue
        connection.register(f"rows_{number}", table.to_dataset(options.read_time(time) if time else None))
        if len(parts) > 1:
            connection.execute(f"create schema if not exists {_quoted(parts[0])}")
        connection.execute(f"create view {'.'.join(map(_quoted, parts))} as from rows_{number}")


def _names_in(node: object) -> Iterator[tuple[str, ...]]:
    """The names of tables in a part of the tree that DuckDB has parsed."""
    match node:
        case dict():
            if node.get("type") == "BASE_TABLE":
                parts = (node["catalog_name"], node["schema_name"], node["table_name"])
                yield tuple(part for part in parts if part)
            for value in node.values():
                yield from _names_in(value)
        case list():
            for value in node:
                yield from _names_in(value)
        case _:
            return


def _found(client: chronolake.Client, parts: list[str]) -> chronolake.Table | None:
    """The table of this name; None if there is none, or if the name has another form."""
    if len(parts) == 1:
        named = [table for table in client.tables() if split_table_name(table.name)[1] == parts[0]]
        if len(named) > 1:
            names = ", ".join(sorted(table.name for table in named))
            context.fail(f"several tables have the name {parts[0]}: {names}", exit_code=output.USAGE)
        return named[0] if named else None
    try:
        split_table_name(".".join(parts))
        return client.table(".".join(parts))
    except (ValueError, errors.TableNotFound):
        return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
