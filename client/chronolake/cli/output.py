"""The output of commands: a JSON document or tables on stdout, failures on stderr."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from chronolake import errors
from chronolake.cli import advice, context, terminal
from chronolake_model.cuts import is_json
from chronolake_model.times import parse_time, to_datetime
from chronolake_model.visible_text import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NOT_FOUND = 4
CONFLICT = 5
ACCESS_REFUSED = 6

EXIT_CODES = (
    f"Exit codes: {OK} success; {FAILED} failed, or refused by the server; {USAGE} wrong usage; "
    f"{UNREACHABLE} the server cannot be reached or is not available; {NOT_FOUND} not found; "
    f"{CONFLICT} conflict with the present state; {ACCESS_REFUSED} no valid token, or a right is missing."
)

_PIPED_WIDTH = 160
_TIME_WIDTH = 20
_GAP = 2
"""Blanks beside each column."""
_BREAKABLE_WIDTH_MIN = 10
_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def nothing_completed(as_of: str | None) -> str:
    """The remark on a table of which no instant had completed by the time that was asked for."""
    if as_of is None:
        return "nothing has completed"
    return "nothing had completed at the cut" if is_json(as_of) else f"nothing had completed as of {as_of}"


def show_line(value: object) -> None:
    """Write ``value`` as one line of JSON, and flush, so that a reader of the pipe gets it at once."""
    sys.stdout.write(visible_json(msgspec.json.encode(value).decode()) + "\n")
    sys.stdout.flush()


def show(value: object, render: Callable[[Console], None]) -> None:
    """Write ``value`` as JSON with ``--json``; otherwise print it by ``render``."""
    if context.wants_json():
        sys.stdout.write(json_document(value) + "\n")
    else:
        render(console())


def json_document(value: object) -> str:
    """``value`` as indented JSON, with the names of the REST API, and as ``json_bytes``."""
    return visible_json(msgspec.json.format(json_bytes(value), indent=2).decode())


def json_bytes(value: object) -> bytes:
    """``value`` as JSON. Floats that JSON lacks are the texts NaN, Infinity and -Infinity."""
    return msgspec.json.encode(_with_finite_floats(msgspec.to_builtins(value)))


def _with_finite_floats(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else _FLOATS[str(value)]
        case dict():
            return {key: _with_finite_floats(element) for key, element in value.items()}
        case list() | tuple():
            return [_with_finite_floats(element) for element in value]
        case _:
            return value


def console() -> Console:
    """The console for readable output on stdout. Lines in a pipe may be long, for programs such as grep."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return terminal.console(sys.stdout, None if narrow else _PIPED_WIDTH)


def table_of(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """A readable table. ``name#`` is a column of numbers; only a ``name~`` column may be wrapped."""
    from rich import box  # noqa: PLC0415  # slow
    from rich.cells import cell_len  # noqa: PLC0415  # slow
    from rich.table import Table  # noqa: PLC0415  # slow
    from rich.text import Text  # noqa: PLC0415  # slow

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    cells = [[visible(cell(value)) for value in row] for row in rows]
    for number, column in enumerate(columns):
        name = column.rstrip("#~")
        longest = max((cell_len(text) for text in (name, *(row[number] for row in cells))), default=0)
        breakable = column.endswith("~")
        table.add_column(
            name,
            justify="right" if column.endswith("#") else "left",
            no_wrap=not breakable,
            overflow="fold",
            min_width=min(longest, _BREAKABLE_WIDTH_MIN) if breakable else longest,
        )
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    return table


def fitting_table(
    to: Console, columns: Iterable[str], rows: Iterable[Sequence[Any]], left_out_first: Iterable[str]
) -> Table:
    """As ``table_of``. While it is too wide for ``to``, columns of ``left_out_first`` are left out in order."""
    columns, rows = list(columns), list(rows)
    table = table_of(columns, rows)
    for name in left_out_first:
        if width_min_of(table) <= to.width:
            break
        kept = [number for number, column in enumerate(columns) if column.rstrip("#~") != name]
        columns = [columns[number] for number in kept]
        rows = [[row[number] for number in kept] for row in rows]
        table = table_of(columns, rows)
    return table


def print_table(to: Console, table: Table) -> None:
    """Print ``table``. A terminal that is too narrow wraps the lines, so that no value is cut off."""
    wide_enough = terminal.console(to.file, max(to.width, width_min_of(table)))
    wide_enough.print(table)


def width_min_of(table: Table) -> int:
    """The minimum width in characters of a table of ``table_of``, with its ``~`` columns wrapped."""
    return sum((column.min_width or 0) + _GAP for column in table.columns)


def pairs_of(pairs: Iterable[tuple[str, Any]]) -> Table:
    """A table of names and values, one pair per line."""
    from rich.cells import cell_len  # noqa: PLC0415  # slow
    from rich.table import Table  # noqa: PLC0415  # slow
    from rich.text import Text  # noqa: PLC0415  # slow

    pairs = list(pairs)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=max(cell_len(name) for name, _ in pairs))
    table.add_column(overflow="fold", min_width=_TIME_WIDTH)
    for name, value in pairs:
        table.add_row(Text(name, style="bold"), Text(visible(cell(value))))
    return table


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 file``, ``1,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cell(value: object) -> str:
    """The readable text of a value."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list() | tuple():
            return ", ".join(str(element) for element in value) or "-"
        case dict():
            return ", ".join(f"{key}={element}" for key, element in value.items()) or "-"
        case _:
            return str(value) or "-"


def utc(time: str | None) -> str:
    """An instant time in digits as a readable date and time."""
    if time is None:
        return "-"
    text = to_datetime(parse_time(time)).strftime("%Y-%m-%d %H:%M:%S.%f")
    return text if len(time) == 20 else text[:-3]


def seconds_between(start: str, end: str | None) -> str:
    """The time between two instants' times."""
    return "-" if end is None else f"{(parse_time(end) - parse_time(start)) / 1_000_000:,.3f} s"


def exit_code_of(error: errors.ChronolakeError) -> int:
    """The exit code for an error."""
    match error:
        case errors.ConnectionFailed() | errors.ServerUnavailable():
            return UNREACHABLE
        case errors.NotFound():
            return NOT_FOUND
        case errors.Conflict():
            return CONFLICT
        case errors.AccessRefused():
            return ACCESS_REFUSED
        case _:
            return FAILED


def report(error: errors.ChronolakeError) -> int:
    """Report an error on stderr; returns the exit code."""
    text = _document(error) if context.wants_json() else _sentences(error)
    print(visible(text), file=sys.stderr)
    return exit_code_of(error)


def report_file(error: OSError) -> int:
    """Report on stderr a file or folder that the user named and that cannot be used; returns the exit code."""
    detail = f"{error.filename} cannot be used: {error.strerror}"
    document = {"type": "about:blank", "title": "A file cannot be used", "detail": detail}
    text = json_document(document) if context.wants_json() else f"Error: {detail}"
    print(visible(text), file=sys.stderr)
    return USAGE


def _document(error: errors.ChronolakeError) -> str:
    if error.problem is not None:
        return json_document(error.problem)
    title = _STORAGE if isinstance(error, errors.StorageFailed) else _NO_ANSWER
    return json_document({"type": "about:blank", "title": title, "code": error.code, "detail": str(error)})


def _sentences(error: errors.ChronolakeError) -> str:
    if isinstance(error, errors.StorageFailed):
        return f"Error: {_STORAGE}: {error}"
    if error.problem is None:
        return f"Error: {_NO_ANSWER}: {error}"
    lines = [f"Error: {error.problem.title} ({error.code})", error.problem.detail]
    if helping := advice.commands(error.code, error.context):
        lines.append("Commands: " + "; ".join(helping))
    return "\n".join(lines)


_STORAGE = "The table's storage refused or failed"
_NO_ANSWER = "The server cannot be reached"
