"""``chronolake diff`` and ``chronolake history``: what changed in the rows of a table, and by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from chronolake.cli import context, options, output, row_output

if TYPE_CHECKING:
    from chronolake._record_versions import RecordVersion
    from chronolake_model.tables import Table

_SHOWN: Final = 50
_SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}
StateArgument = Annotated[
    str,
    typer.Argument(
        metavar="TIME",
        callback=options.read_time,
        show_default=False,
        help="A state: an instant's completion time in digits, ISO 8601 in UTC, earliest or latest.",
    ),
]


def diff(
    table: options.TableArgument,
    from_: StateArgument,
    to: StateArgument = "latest",
    columns: row_output.ColumnsOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The number of rows in a table.")] = _SHOWN,
) -> None:
    """Show the records that differ in two states of a table. Needs the extra arrow, and no Java.

    The first state is the earlier one. A record is inserted (+), updated (~) or deleted (-); of an update only
    the columns that changed are shown.
    """
    with context.client() as client:
        lake_table = client.table(table)
        keys = lake_table.definition.record_key_fields
        names = row_output.names_of(columns)
        try:
            # Without its key nobody knows which record has changed.
            with_keys = names and list(dict.fromkeys([*keys, *names]))
            changed = lake_table.differences_to_arrow(from_, to, columns=with_keys)
            from chronolake.slices import python_rows  # noqa: PLC0415  # needs the extra

            listed = python_rows.of(changed)
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(listed, lambda console: _print_differences(console, listed, keys, limit))


def history(
    table: options.TableArgument,
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            metavar="VALUE",
            show_default=False,
            help="The record's key; of several key fields FIELD=VALUE for each.",
        ),
    ],
) -> None:
    """Show all versions of one record: who made each, when, and what it changed. Needs the extra arrow."""
    with context.client() as client:
        lake_table = client.table(table)
        names = lake_table.definition.record_key_fields
        try:
            versions = lake_table.record_history(_key(key, names))
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
        definition = lake_table.definition
    output.show(versions, lambda console: _print_history(console, versions, definition))


def _key(given: Sequence[str], names: Sequence[str]) -> str | dict[str, str]:
    """The key in the values of ``--key``; those without a field are a usage error if there are several."""
    if len(names) == 1 and len(given) == 1:
        return given[0].removeprefix(f"{names[0]}=")
    pairs = dict(text.partition("=")[::2] for text in given)
    if set(pairs) != set(names):
        fields = " ".join(f"--key {name}=VALUE" for name in names)
        raise typer.BadParameter(f"the record key of the table is: {fields}", param_hint="--key")
    return pairs


def _print_differences(
    console: Console, listed: Sequence[Mapping[str, Any]], keys: Sequence[str], limit: int
) -> None:
    rows = []
    for difference in listed[:limit]:
        row = difference["after"] or difference["before"]
        key = ", ".join(row_output.text_of(row[name]) for name in keys if name in row)
        rows.append((_SIGNS[difference["change"]], key, _changed(difference["before"], difference["after"])))
    output.print_table(console, output.table_of(("", ", ".join(keys), "columns~"), rows))
    counts = {change: sum(of["change"] == change for of in listed) for change in _SIGNS}
    more = f"; {limit:,} are shown" if len(listed) > limit else ""
    console.print(", ".join(f"{count:,} x {change}" for change, count in counts.items()) + more)


def _print_history(console: Console, versions: Sequence[RecordVersion], table: Table) -> None:
    rows = (
        (
            output.utc(version.completion_time),
            version.requested_time,
            version.writer,
            version.operation,
            version.change,
            _changed(version.before, version.after),
        )
        for version in versions
    )
    columns = ("completed (UTC)", "instant", "writer~", "operation", "change", "columns~")
    left_out_first = ("operation", "completed (UTC)")
    output.print_table(console, output.fitting_table(console, columns, rows, left_out_first))
    if not versions:
        console.print("No version of such a record is in the history that can be read.")
    if table.cleaned_before is not None and (not versions or versions[0].before is not None):
        since = f"{table.cleaned_before} ({output.utc(table.cleaned_before)} UTC)"
        sentence = f"History up to {since} was cleaned: the record may have older versions, and still exist."
        console.print(sentence, soft_wrap=True)


def _changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """The columns of a record that is new or gone, or those that changed, with both values."""
    if before is None or after is None:
        whole = before or after or {}
        return ", ".join(f"{name}={_text(value)}" for name, value in whole.items())
    changed = [name for name in after if str(before[name]) != str(after[name])]
    return ", ".join(f"{name}: {_text(before[name])} -> {_text(after[name])}" for name in changed)


def _text(value: Any) -> str:
    return "null" if value is None else row_output.text_of(value)
