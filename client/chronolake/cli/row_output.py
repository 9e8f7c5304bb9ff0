"""Rows on stdout: as a readable table, JSON, CSV, or a stream of Arrow."""

from __future__ import annotations

import enum
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from chronolake.cli import context, output

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_MAX: Final = 1_000
"""Rows of a readable table."""
_QUOTED: Final = frozenset('",\r\n')
"""Characters for which a field of CSV is quoted."""


class Form(enum.StrEnum):
    """The form of rows on stdout."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


OutputOption = Annotated[
    Form,
    typer.Option(
        "--output",
        "-o",
        help="table; json, a list of rows; csv; arrow, a stream of Arrow IPC. --json is --output json.",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Only these columns, with commas between them."),
]


def form_of(chosen: Form) -> Form:
    """The form that is asked for: ``--json`` is another spelling of one."""
    return Form.JSON if context.wants_json() else chosen


def names_of(columns: str | None) -> list[str] | None:
    """The names in the value of ``--columns``."""
    return None if columns is None else [name for text in columns.split(",") if (name := text.strip())]


def with_distinct_names(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows with a number after each repeated name: both tables of a join may have a column of one name."""
    import pyarrow as pa  # noqa: PLC0415  # an extra, which the caller has loaded

    names: list[str] = []
    for name in rows.schema.names:
        numbered = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))
        names.append(next(text for text in numbered if text not in names))
    schema = pa.schema([field.with_name(name) for field, name in zip(rows.schema, names, strict=True)])
    return pa.RecordBatchReader.from_batches(schema, (batch.rename_columns(names) for batch in rows))


def write(rows: pa.RecordBatchReader, form: Form, limit: int | None = None) -> None:
    """Write the rows, ``limit`` at most. Only a table or JSON holds all of them."""
    batches = _limited(rows, limit)
    match form:
        case Form.TABLE:
            _write_table(rows.schema.names, _limited_rows(batches))
        case Form.JSON:
            listed = [row for batch in batches for row in _rows_of(batch)]
            sys.stdout.write(output.json_document(listed) + "\n")
        case Form.CSV:
            _write_csv(rows.schema.names, batches)
        case Form.ARROW:
            _write_arrow(rows.schema, batches)
    # At the end of the process this would come after the threads that read ahead.
    sys.stdout.flush()


def text_of(value: Any) -> str:
    """The readable text of a value; that of a nested value is JSON."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case dict() | list() | bytes():
            return output.json_bytes(value).decode()
        case _:
            return str(value)


def _limited(rows: pa.RecordBatchReader, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in rows:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(len(batch), left)
        if not left:
            return


def _limited_rows(batches: Iterable[pa.RecordBatch]) -> list[Mapping[str, Any]]:
    """The rows of a readable table, and one more if there are more."""
    listed: list[Mapping[str, Any]] = []
    for batch in batches:
        listed += _rows_of(batch.slice(0, SHOWN_MAX + 1 - len(listed)))
        if len(listed) > SHOWN_MAX:
            break
    return listed


def _write_table(names: Sequence[str], rows: list[Mapping[str, Any]]) -> None:
    shown = rows[:SHOWN_MAX]
    numbers = {name for name in names if any(_is_number(row[name]) for row in shown)}
    headings = [f"{name}#" if name in numbers else f"{name}~" for name in names]
    cells = ([text_of(row[name]) for name in names] for row in shown)
    output.print_table(output.console(), output.table_of(headings, cells))
    if len(rows) > SHOWN_MAX:
        context.progress(f"The first {SHOWN_MAX:,} rows. --output csv writes all, --limit fewer.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _write_csv(names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> None:
    sys.stdout.write(",".join(map(_csv_field, names)) + "\n")
    # A line with nothing would be no row.
    null_line = '""' if len(names) == 1 else ""
    for batch in batches:
        lines = (",".join(map(_csv_field, row.values())) or null_line for row in _rows_of(batch))
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _csv_field(value: Any) -> str:
    """A value as ``chronolake ingest`` reads it: null is nothing, except in a line without others."""
    if value is None:
        return ""
    text = text_of(value)
    return text if text and _QUOTED.isdisjoint(text) else '"' + text.replace('"', '""') + '"'


def _rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows in Python's values."""
    from chronolake.slices import python_rows  # noqa: PLC0415  # needs an extra, which the caller has loaded

    return python_rows.of(batch)


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa  # noqa: PLC0415  # an extra, which the caller has loaded

    with pa.ipc.new_stream(sys.stdout.buffer, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
