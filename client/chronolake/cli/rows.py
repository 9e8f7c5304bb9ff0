"""``chronolake head`` and ``chronolake query``: rows of tables, read by this process."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Annotated, Final

import typer

import chronolake
from chronolake import errors
from chronolake.cli import context, files, filters, options, output, row_output
from chronolake_model.cuts import CUT_TABLES_MAX
from chronolake_model.names import split_table_name
from chronolake_model.times import format_time, from_datetime, parse_time

if TYPE_CHECKING:
    import duckdb

HEAD_ROWS: Final = 10
_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {"python_enable_replacements": False}
"""Otherwise a name that is no table would be that of a Python variable of this program."""
_HAS_NAN: Final = re.compile("float|double")
_FIRST_ROWS_MAX: Final = 100_000
"""Rows that are read in one batch: more would only delay the first one."""
_AT: Final = re.compile(
    r"""
      '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$\$.*?\$\$
    | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)?)@(?P<time>\d[\dTZ:.+-]*\b|[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Parts of SQL that are left as they are, and the name of a table with a time, or with a word for one."""
_WRITES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE_INTO"})
_NO_TABLE: Final = re.compile(r'Table with name "?([^" ]+)"? does not exist')
_NAMED_MAX: Final = 20
"""Tables that a message names."""


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
    with context.client() as client, contextlib.ExitStack() as leases:
        lake_table = client.table(table)
        _note_time(client, lake_table, as_of)
        wanted = None if where is None else filters.parsed(where, lake_table)
        try:
            reading = leases.enter_context(lake_table.reading(as_of))
            rows = lake_table.to_batches(
                reading.as_of or as_of,
                where=wanted,
                columns=row_output.names_of(columns),
                batch_rows=min(limit, _FIRST_ROWS_MAX) if wanted is None else None,
            )
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
        row_output.write(rows, row_output.form_of(form), limit)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in DuckDB's SQL.", show_default=False)],
    as_of: files.AsOfOption = None,
    form: row_output.OutputOption = row_output.Form.TABLE,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most this number of rows.")
    ] = None,
) -> None:
    """Run a query over tables, by DuckDB in this process. Needs the extra duckdb, and no Java.

    A table is named as NAMESPACE.TABLE, or TABLE if no other namespace has one of this name. With a time, as
    shop.orders@2026-01-31T12:00:00Z, it is read as of this time; orders@earliest and an instant's digits are
    possible too. Names without a time are read as of --as-of, or else at one moment: a cut of these tables.
    """
    try:
        import duckdb  # noqa: PLC0415  # an extra
        import pyarrow as pa  # noqa: PLC0415  # an extra
    except ImportError:
        context.fail("this needs duckdb: pip install 'chronolake[duckdb]'")
    text = with_times_quoted(sql)
    with (
        context.client() as client,
        contextlib.ExitStack() as leases,
        duckdb.connect(config=_CONFIG) as connection,
    ):
        unknown: list[str] = []
        try:
            _refuse_writes(connection, text)
            unknown = register(client, connection, leases, text, as_of)
            result = connection.sql(text)
            if result is None:
                context.fail("the text is not a query: it has no rows", exit_code=output.USAGE)
            rows = row_output.with_distinct_names(result.to_arrow_reader())
            row_output.write(rows, row_output.form_of(form), limit)
        except BrokenPipeError:
            raise
        except duckdb.CatalogException as exc:
            name = _missing_table(str(exc), unknown)
            if name is None:
                context.fail(str(exc))
            context.fail(_no_table(client, name), exit_code=output.NOT_FOUND)
        # Rows are computed while they are written: then PyArrow reports what DuckDB could not do.
        except (duckdb.Error, pa.ArrowException, OSError) as exc:
            context.fail(str(exc))


def with_times_quoted(sql: str) -> str:
    """The query with ``shop.orders@2026`` as ``shop."orders@2026"``, which is a name in SQL."""

    def quoted(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        *namespace, name = match["name"].split(".")
        return ".".join([*namespace, f'"{name}@{match["time"]}"'])

    return _AT.sub(quoted, sql)


def _note_time(client: chronolake.Client, table: chronolake.Table, as_of: str | None) -> None:
    """Print a note if a time is before the table has anything, or in the future: it may be mistyped."""
    if as_of is None or not as_of.isdigit():
        return
    created_at, time = from_datetime(table.definition.created_at), parse_time(as_of)
    # An adopted table has older instants.
    if time < created_at and not list(table.instants(completed_to=as_of, limit=1)):
        made = output.utc(format_time(created_at))
        context.progress(
            f"Note: {table.name} was made at {made} UTC, after {output.utc(as_of)}: it has no rows."
        )
    elif time > parse_time(client.time().latest):
        context.progress(f"Note: {output.utc(as_of)} UTC is in the future: these are the newest rows.")


def _refuse_writes(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    if any(statement.type.name in _WRITES for statement in connection.extract_statements(sql)):
        context.fail(
            "query only reads: write by Table.upsert, insert, delete or overwrite in Python, or by Spark",
            exit_code=output.USAGE,
        )


def _missing_table(reason: str, unknown: list[str]) -> str | None:
    """The table that DuckDB's message says is missing, of those that are; None if it says something else."""
    said = _NO_TABLE.search(reason)
    named = (name for name in unknown if said and said[1] in (name, name.split(".")[-1]))
    return next((name.partition("@")[0] for name in named), None)


def _no_table(client: chronolake.Client, name: str) -> str:
    """A message with the tables that there are."""
    names = [table.name for table in itertools.islice(client.tables(), _NAMED_MAX + 1)]
    listed = ", ".join(names[:_NAMED_MAX]) + (", and others" if len(names) > _NAMED_MAX else "")
    return f"there is no table {name}; the server has {listed or 'none that you may read'}"


def register(
    client: chronolake.Client,
    connection: duckdb.DuckDBPyConnection,
    leases: contextlib.ExitStack,
    sql: str,
    as_of: str | None = None,
) -> list[str]:
    """Make the tables that a query names known to DuckDB, and return the names of those that are not found.

    DuckDB finds them itself, or refuses them. Tables without a time are read as of ``as_of``, or at one cut.
    All are read under ``leases``.
    """
    found: list[tuple[tuple[str, ...], chronolake.Table, str]] = []
    unknown: list[str] = []
    serialized = connection.execute("select json_serialize_sql(?)", [sql]).fetchone()
    assert serialized is not None
    tree = json.loads(serialized[0])
    expressions = set(_expressions_in(tree))
    for parts in sorted(set(_names_in(tree))):
        name, _, time = parts[-1].partition("@")
        table = _found(client, [*parts[:-1], name], expressions)
        if table is None:
            unknown.append(".".join(parts))
        else:
            found.append((parts, table, time))
    cut = _cut_of(client, [table for _, table, time in found if not time]) if as_of is None else as_of
    for number, (parts, table, time) in enumerate(found):
        moment = options.read_time(time) if time else cut
        _note_time(client, table, moment)
        if any(_HAS_NAN.search(field.type) for field in table.definition.schema):
            # PyArrow, to which DuckDB passes filters, has NaN greater than nothing.
            connection.execute("set disabled_optimizers = 'filter_pushdown'")
        view = f"@{number}"  # No table has such a name.
        try:
            reading = leases.enter_context(table.reading(moment))
        except ValueError as exc:  # The cut lacks the table.
            context.fail(str(exc), exit_code=output.USAGE)
        connection.register(view, table.to_dataset(reading.as_of or moment))
        if len(parts) > 1:
            connection.execute(f"create schema if not exists {_quoted(parts[0])}")
        connection.execute(f"create view {'.'.join(map(_quoted, parts))} as from {_quoted(view)}")
    return unknown


def _cut_of(client: chronolake.Client, tables: list[chronolake.Table]) -> str | None:
    """The JSON of a cut of these tables; None for one, whose newest state is read."""
    if len(tables) < 2:
        return None
    names = sorted({table.name for table in tables})
    cut = client.cut(tables=names if len(names) <= CUT_TABLES_MAX else None)
    if not cut.caught_up:
        context.progress("An open transaction of the server keeps later commits back; they are not read.")
    return cut.to_json()


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


def _expressions_in(node: object) -> Iterator[str]:
    """The names of common table expressions in a part of that tree."""
    match node:
        case dict():
            for entry in (node.get("cte_map") or {}).get("map", ()):
                yield entry["key"]
            for value in node.values():
                yield from _expressions_in(value)
        case list():
            for value in node:
                yield from _expressions_in(value)
        case _:
            return


def _found(client: chronolake.Client, parts: list[str], expressions: Set[str]) -> chronolake.Table | None:
    """The table of this name; None if there is none, or if the name has another form.

    A name that several tables have may be that of a common table expression alone.
    """
    if len(parts) == 1:
        named = [table for table in client.tables() if split_table_name(table.name)[1] == parts[0]]
        if len(named) > 1 and parts[0] in expressions:
            return None
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
